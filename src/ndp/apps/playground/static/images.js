// The tab Images: complete a picture, given some of its pixels.

import { readAddress } from "./address.js";
import { post } from "./api.js";
import { choice } from "./choice.js";
import { copyText, download, strip } from "./download.js";
import { PictureEditor } from "./picture_editor.js";
import { PRESETS, paint, paintSpread, preset, readFile, readInk, readKnown, summarisePictures, writeBits, writeInk, writeKnown } from "./pixels.js";
import { pythonForPicture } from "./python.js";

export const name = "images";
export const title = "Images";
export const available = ({ images }) => images.length > 0;

const DRAWS = 6;
const PER_REQUEST = 2; // draws a request: the first ones are shown while the others are computed
const PICTURE_CALLS = 12; // solver calls for a draw of the prior
const PAUSE = 300; // ms after the last change

const TEMPLATE = `
<div class="stage card">
  <h2>Show some pixels, see what the rest could be</h2>
  <p class="lead">Paint the known pixels. Every completion is a draw of the posterior, a picture with these pixels.</p>
  <div class="workbench">
    <div class="easel">
      <h3>What is known <span id="share"></span></h3>
      <div class="canvas">
        <canvas id="picture" tabindex="0" role="application" aria-label="The picture. Paint with mouse or finger, or move with the arrow keys (Shift for larger steps) and press Space."></canvas>
        <div class="cursor" aria-hidden="true"></div>
      </div>
      <fieldset class="tools"><legend>Brush</legend>
        <div class="choices">
          <label><input type="radio" name="tool" value="show" checked />Show</label>
          <label><input type="radio" name="tool" value="hide" />Hide</label>
          <label id="pen"><input type="radio" name="tool" value="draw" />Draw</label>
        </div>
        <label class="row"><span>Width</span><input type="range" id="brush" min="1" max="9" value="4" /><output>4</output></label>
      </fieldset>
      <div class="buttons presets" role="group" aria-label="Known pixels"></div>
    </div>
    <div class="outcomes">
      <h3>What the picture could be</h3>
      <div class="pictures" id="completions"></div>
      <div class="pictures">
        <figure><canvas id="mean" role="img" aria-label="Mean of the completions"></canvas><figcaption>their mean</figcaption></figure>
        <figure><canvas id="spread" class="spread" role="img" aria-label="Spread: where completions differ"></canvas><figcaption>where they differ</figcaption></figure>
        <p class="hint">The stronger the colour, the more the completions differ there.</p>
      </div>
    </div>
  </div>
  <div class="buttons toolbar">
    <button type="button" id="redraw" class="primary">New completions</button>
    <button type="button" id="another">Another picture</button>
    <button type="button" id="blank">Blank page</button>
    <button type="button" id="load">Open a picture</button>
    <button type="button" id="copy-python">Copy Python</button>
    <button type="button" id="share-link">Copy link</button>
    <button type="button" id="picture-png">PNG</button>
    <input type="file" id="picture-file" accept="image/*" hidden />
  </div>
</div>
<div class="panel card">
  <fieldset><legend>Model</legend><div class="models"></div></fieldset>
  <div>
    <h3>Drawing</h3>
    <label class="row"><span>Solver calls</span><input type="range" id="picture-calls" min="2" max="30" /><output></output></label>
  </div>
  <p class="hint" id="origin"></p>
</div>`;

export function create(root, page) {
  root.innerHTML = TEMPLATE;
  const find = (selector) => root.querySelector(selector);
  const state = { model: page.images[0].name, calls: page.images[0].calls, seed: 0 };
  const shelf = new Map(); // by model: { values, known, from: a seed, "ink" or "file"; pending: a seed that is being drawn }
  let completions = [];
  let asking = null;
  let picturing = null;
  let waiting = 0;
  let saving = 0;

  const model = () => page.images.find((one) => one.name === state.model);
  const easel = () => shelf.get(state.model);
  const tell = (words, problem) => page.tab === name && page.say(words, problem);
  const tool = () => root.querySelector("[name=tool]:checked").value;
  const editor = new PictureEditor(find("#picture"), find(".cursor"), {
    tool,
    brush: () => Number(find("#brush").value),
    changed: () => {
      if (tool() === "draw") setPicture(easel().values, "ink");
      else update();
    },
    moved: (row, column, known) => tell(`Row ${row + 1}, column ${column + 1}: ${known ? "shown" : "hidden"}`),
  });
  const tiles = Array.from({ length: DRAWS }, (_, i) => {
    const canvas = document.createElement("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Completion ${i + 1}`);
    find("#completions").append(canvas);
    return canvas;
  });

  // After a change: stop the requests for the old pixels, and send new ones after a pause.
  function update() {
    showPicture();
    save();
    clearTimeout(waiting);
    asking?.abort();
    tiles.forEach((tile) => tile.classList.add("waiting"));
    root.dataset.state = "busy";
    if (!picturing) waiting = setTimeout(complete, PAUSE);
  }

  async function complete() {
    const { values, known } = easel();
    const { channels } = model();
    completions = [];
    if (known.every(Boolean)) {
      tiles.forEach((tile) => paint(tile, values, channels));
      showSummary([values]);
      return settled("Every pixel is shown: there is nothing to complete");
    }
    const pixels = Array.from(known, (seen, i) => (seen ? Array.from(values.subarray(channels * i, channels * (i + 1))) : null));
    asking = new AbortController();
    const begun = performance.now();
    try {
      while (completions.length < DRAWS) {
        tell(`Drawing completions ${completions.length + 1} and ${completions.length + PER_REQUEST} of ${DRAWS} …`);
        const seed = (state.seed + completions.length / PER_REQUEST) % 2 ** 32;
        const asked = { model: state.model, pixels, draws: PER_REQUEST, steps: state.calls, seed };
        const answer = await post("api/images/complete", asked, asking.signal);
        for (const picture of answer.completions) {
          const tile = tiles[completions.length];
          completions.push(Float32Array.from(picture.flat()));
          paint(tile, completions.at(-1), channels);
          tile.classList.remove("waiting");
        }
        showSummary(completions);
      }
      const shown = known.reduce((sum, one) => sum + one, 0);
      settled(`${DRAWS} completions of ${shown} pixel${shown === 1 ? "" : "s"}, ${state.calls} solver calls, ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    } catch (error) {
      if (error.name !== "AbortError") failed(error);
    }
  }

  function settled(words) {
    tiles.forEach((tile) => tile.classList.remove("waiting"));
    root.dataset.state = "idle";
    tell(words);
  }

  function failed(error) {
    root.dataset.state = "idle";
    tell(error.message, true);
  }

  function showSummary(pictures) {
    const { mean, spread } = summarisePictures(pictures, model().channels);
    paint(find("#mean"), mean, model().channels);
    paintSpread(find("#spread"), spread);
  }

  function showPicture() {
    const { values, known, from } = easel();
    const { size, channels } = model();
    editor.set(values, known, size, channels);
    find("#share").textContent = `${((100 * known.reduce((sum, one) => sum + one, 0)) / known.length).toFixed(0)} %`;
    const origins = { ink: "The picture is yours.", file: "The picture is yours and stays on this machine; a link does not contain it." };
    const drawn = "The picture is a draw of the model, without known pixels.";
    find("#origin").textContent = `${origins[from] ?? drawn} Drop one of your own here${channels === 1 ? ", or draw a digit on a blank page" : ""}.`;
  }

  function showControls() {
    for (const radio of root.querySelectorAll("[name=pictures]")) radio.checked = radio.value === state.model;
    find("#picture-calls").value = state.calls;
    find("#picture-calls").nextElementSibling.textContent = state.calls;
    const grey = model().channels === 1;
    find("#pen").hidden = find("#blank").hidden = !grey;
    if (!grey && tool() === "draw") find("[name=tool]").checked = true;
    find("#brush").disabled = tool() === "draw"; // a pen has one width
  }

  // A draw of the model, without known pixels.
  async function drawPicture(seed) {
    const { size, channels } = model();
    const empty = { values: new Float32Array(channels * size * size), known: preset("upper", size) };
    shelf.set(state.model, { ...(easel() ?? empty), pending: seed });
    stopPicture();
    const mine = (picturing = new AbortController());
    find(".canvas").classList.add("waiting");
    update();
    tell("Drawing a picture …");
    try {
      const asked = { model: state.model, draws: 1, steps: PICTURE_CALLS, seed };
      const { completions: found } = await post("api/images/complete", asked, mine.signal);
      setPicture(Float32Array.from(found[0].flat()), seed);
    } catch (error) {
      if (error.name === "AbortError") return;
      stopPicture();
      failed(error);
    }
  }

  function stopPicture() {
    picturing?.abort();
    picturing = null;
    find(".canvas").classList.remove("waiting");
  }

  function setPicture(values, from, known = easel().known) {
    stopPicture();
    shelf.set(state.model, { values, known, from });
    update();
  }

  function setKnown(known) {
    if (!easel()) return;
    easel().known = known;
    update();
  }

  function setModel(next) {
    state.model = next;
    showControls();
    stopPicture();
    if (easel() && easel().pending === undefined) update();
    else drawPicture(easel()?.pending ?? model().example);
  }

  function address() {
    const { values, known, pending, from } = easel();
    const picture = pending !== undefined ? [`picture=${pending}`] : from === "ink" || (from === "file" && model().channels === 1) ? [`ink=${writeInk(values)}`] : from === "file" ? [] : [`picture=${from}`];
    return [`#tab=${name}`, `model=${state.model}`, ...picture, `known=${writeKnown(known)}`, `calls=${state.calls}`, `seed=${state.seed}`].join("&");
  }

  function save() {
    clearTimeout(saving);
    saving = setTimeout(() => page.tab === name && easel() && history.replaceState(null, "", address()), 150);
  }

  async function readPicture(file) {
    const { name: asked, size, channels } = model();
    try {
      const values = await readFile(file, size, channels);
      if (asked === state.model) setPicture(values, "file");
    } catch {
      tell("The browser cannot read this file as a picture", true);
    }
  }

  // Controls

  find(".models").append(...page.images.map((one) => choice("pictures", one.name, one, () => setModel(one.name))));
  for (const [key, { title: words }] of Object.entries(PRESETS)) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: words, value: key });
    if (PRESETS[key].share) button.setAttribute("aria-label", `${words} of the pixels, at random`);
    button.addEventListener("click", () => setKnown(preset(key, model().size)));
    find(".presets").append(button);
  }
  find("#brush").addEventListener("input", (event) => (event.target.nextElementSibling.textContent = event.target.value));
  find(".choices").addEventListener("change", showControls);
  find("#picture-calls").addEventListener("input", (event) => {
    state.calls = Number(event.target.value);
    showControls();
    if (easel()) update();
  });
  const buttons = {
    redraw: () => {
      state.seed = Math.floor(Math.random() * 1e6);
      if (easel()) update();
    },
    another: () => drawPicture(Math.floor(Math.random() * 1e6)),
    blank: () => {
      const pixels = model().size ** 2;
      find("[name=tool][value=draw]").checked = true;
      showControls();
      setPicture(new Float32Array(pixels), "ink", new Uint8Array(pixels));
    },
    load: () => find("#picture-file").click(),
    "copy-python": async () => {
      if (!easel()) return;
      const { values, known, from, pending } = easel();
      if (known.every(Boolean)) return tell("Every pixel is shown: there is nothing to complete");
      const own = pending === undefined && (from === "ink" || (from === "file" && model().channels === 1));
      const picture = own ? { ink: writeInk(values) } : from === "file" ? {} : { seed: pending ?? from, calls: PICTURE_CALLS };
      await copyText(pythonForPicture({ model: model(), picture, known: writeBits(known), draws: DRAWS, perRequest: PER_REQUEST, calls: state.calls, seed: state.seed }));
      tell("Copied: the Python program that draws these completions");
    },
    "picture-png": async () => {
      if (!easel()) return;
      const shown = [find("#picture"), ...tiles, find("#mean"), find("#spread")];
      download(`${state.model}.png`, await strip(shown, { scale: 8, gap: 8 }));
    },
    "share-link": async () => {
      if (!easel()) return;
      history.replaceState(null, "", address());
      await copyText(location.href);
      tell(address().includes("&ink=") || address().includes("&picture=") ? "Copied: a link to what is on the screen" : "Copied: a link without your picture, which stays on this machine");
    },
  };
  for (const [id, act] of Object.entries(buttons)) find(`#${id}`).addEventListener("click", act);
  find("#picture-file").addEventListener("change", (event) => {
    const [file] = event.target.files;
    if (file) readPicture(file);
    event.target.value = "";
  });
  const stage = find(".stage");
  stage.addEventListener("dragover", (event) => {
    event.preventDefault();
    stage.classList.add("receiving");
  });
  stage.addEventListener("dragleave", () => stage.classList.remove("receiving"));
  stage.addEventListener("drop", (event) => {
    event.preventDefault();
    stage.classList.remove("receiving");
    const [file] = event.dataTransfer.files;
    if (file) readPicture(file);
  });

  // The state in the address, or an example.
  function fromAddress() {
    const given = new URLSearchParams(location.hash.replace(/^#/, ""));
    const { tab, model: asked, calls, seed } = readAddress();
    if (tab !== name) return setModel(state.model);
    if (page.images.some((one) => one.name === asked)) state.model = asked;
    state.calls = calls ?? model().calls;
    state.seed = seed ?? state.seed;
    showControls();
    const { size, channels, example } = model();
    const known = readKnown(given.get("known"), size) ?? preset("upper", size);
    const ink = channels === 1 ? readInk(given.get("ink"), size) : null;
    const number = Number(given.get("picture") ?? example);
    shelf.set(state.model, { values: ink ?? new Float32Array(channels * size * size), known, from: "ink" });
    stopPicture();
    if (ink) update();
    else drawPicture(Number.isInteger(number) && number >= 0 && number < 2 ** 32 ? number : example);
  }

  let begun = false;
  return {
    shown() {
      const elsewhere = begun && location.hash.includes("&known=") && location.hash !== address();
      if (!begun || elsewhere) fromAddress();
      else save();
      begun = true;
    },
  };
}
