// What is on the tab Functions.

import { FACTS } from "./facts.js";

export const TEMPLATE = `
<div class="stage card">
  <h2>Click points, see functions appear</h2>
  <p class="lead">Click to add a point, drag to move it, double-click to remove it. Every line is a function drawn from the posterior.</p>
  <div class="frame">
  <svg class="chart" id="posterior" role="group" aria-label="Functions through the points. Tab reaches the points; Enter adds one at the slice." tabindex="0"></svg>
  <div class="slider"><input type="range" id="slice" step="any" aria-label="Slice: show the density of the value at this x" /></div>
  <div class="noise-level" aria-hidden="true"></div>
  </div>
  <ul class="legend">
    <li class="is-draws"><span></span>draws</li>
    <li class="is-mean"><span></span>mean</li>
    <li class="band"><span></span>50 % and 90 % of draws</li>
    <li class="is-exact" hidden><span></span><i></i></li>
  </ul>
  <div class="buttons toolbar">
    <button type="button" id="animate" class="primary">Watch the denoising</button>
    <button type="button" id="reseed">New draws</button>
    <button type="button" id="python">Copy Python</button>
    <button type="button" id="link">Copy link</button>
    <button type="button" id="png">PNG</button>
    <button type="button" id="csv">CSV</button>
    <button type="button" id="open">Open CSV</button>
    <input type="file" id="file" accept=".csv,text/csv,text/plain" hidden />
  </div>
</div>
<div class="panel card">
  <fieldset><legend>Model</legend><div class="models"></div></fieldset>
  <div>
    <h3>Drawing</h3>
    <label class="row"><span>Draws</span><input type="range" id="draws" min="1" max="64" /><output></output></label>
    <label class="row"><span>Solver calls</span><input type="range" id="calls" min="2" max="30" /><output></output></label>
    <div class="checks" id="show">
      <label><input type="checkbox" value="draws" />Draws</label>
      <label><input type="checkbox" value="mean" />Mean</label>
      <label><input type="checkbox" value="fan" />Fan</label>
      <label><input type="checkbox" value="exact" />Exact</label>
    </div>
  </div>
  <fieldset class="checks" id="facts"><legend>What is known of the function</legend>
    ${FACTS.map(({ name, title }) => `<label><input type="checkbox" value="${name}" />${title}</label>`).join("")}
  </fieldset>
  <div id="selected">
    <h3>Selected point</h3>
    <div class="coordinates">
      <label>x<input type="number" id="point-x" step="0.05" /></label>
      <label>y<input type="number" id="point-y" step="0.05" /></label>
    </div>
    <label class="row"><span>Its noise</span><input type="range" id="noise" min="0" max="1" step="0.02" /><output></output></label>
    <div class="buttons"><button type="button" id="remove">Remove it</button><button type="button" id="clear">Clear all</button></div>
  </div>
  <p class="hint">Paste or drop a table with the columns x and y, and noise if it is known.</p>
</div>`;
