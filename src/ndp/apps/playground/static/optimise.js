// The tab Optimise: search the minimum of a hidden function, one evaluation at a time.

import { get, post } from "./api.js";
import { Chart, element, lines, shown, ticks } from "./chart.js";
import { choice } from "./choice.js";
import { histogram } from "./statistics.js";

export const name = "optimise";
export const title = "Optimise";
export const available = ({ models }) => models.some((model) => model.optimises);

const MOST = 60;
const PAUSE = 420; // ms between showing the next point and its value
const BINS = 60;
const BARS = 0.3; // of the chart's height, for the most likely places

// The methods, by their names on the server; `how` is the reason for the next point.
const METHODS = {
  thompson: {
    title: "Thompson sampling",
    about: "Draws a function, and evaluates where it is lowest",
    lead: "Each step draws functions of the posterior, and evaluates where one of them is lowest (Thompson sampling).",
    how: "where the drawn function is lowest",
  },
  joint: {
    title: "Joint model",
    about: "Draws the place of a value below the best so far",
    lead: "Each step draws a value y* below the best so far, and evaluates at a place x* that a joint model draws for it.",
    how: "a place drawn for y*",
  },
};

const TEMPLATE = `
<div class="stage card">
  <h2>Find the lowest point of a function you cannot see</h2>
  <p class="lead"></p>
  <svg class="chart" id="search" role="img" aria-label="The search: drawn functions or places, evaluated points, and the hidden function"></svg>
  <ul class="legend">
    <li class="is-draws" data-method="thompson"><span></span>draws; the thick one chooses the next point</li>
    <li class="is-exact" data-method="thompson"><span></span>where it is lowest</li>
    <li class="band" data-method="joint"><span></span>places x* drawn for y*</li>
    <li class="is-exact" data-method="joint"><span></span>y*, and the next point</li>
    <li class="is-best"><span></span>best so far</li>
    <li class="is-truth"><span></span>hidden function</li>
  </ul>
</div>
<div class="panel card">
  <fieldset id="methods"><legend>Method</legend><div class="models"></div></fieldset>
  <fieldset data-method="thompson"><legend>Model</legend><div class="models" id="searchers"></div></fieldset>
  <div class="buttons">
    <button type="button" id="step" class="primary">Take a step</button>
    <button type="button" id="run">Ten steps</button>
    <button type="button" id="again">Start over</button>
    <button type="button" id="fresh">New function</button>
  </div>
  <div class="checks"><label><input type="checkbox" id="reveal" checked />Show the hidden function</label></div>
  <dl class="numbers">
    <div><dt>Evaluations</dt><dd id="count">0</dd></div>
    <div><dt>Best value</dt><dd id="best">–</dd></div>
    <div><dt>Regret</dt><dd id="regret">–</dd></div>
  </dl>
  <div>
    <h3>Regret, on a log scale</h3>
    <svg class="chart small" id="regrets" role="img" aria-label="Regret after each evaluation"></svg>
  </div>
</div>`;

export function create(root, page) {
  root.innerHTML = TEMPLATE;
  const find = (selector) => root.querySelector(selector);
  const models = page.models.filter((model) => model.optimises);
  const state = { method: "thompson", model: (models.find((model) => model.name === "matern52") ?? models[0]).name, function: 0, seed: 0 };
  let hidden = null;
  let evaluated = []; // { x, y }
  let step = null; // the last one, drawn
  let regret = [];
  let running = 0; // changes when a run must stop

  const search = new Chart(find("#search"), {
    leftLabel: "f(x)",
    layers: { places: {}, draws: {}, truth: { tag: "path" }, deciding: { tag: "path" }, choice: { class: "choice" }, seen: { class: "" } },
    onLayout: drawSearch,
  });
  const regrets = new Chart(find("#regrets"), {
    bottomLabel: "evaluations",
    leftLabel: "",
    layers: { line: { class: "regret-line", tag: "path" }, dots: { class: "regret-dots" } },
    onLayout: drawRegret,
  });
  regrets.drawGrid = drawLogGrid;

  function drawSearch() {
    if (!hidden || !search.width) return;
    const { layers } = search;
    layers.truth.setAttribute("d", find("#reveal").checked ? search.line(hidden.x, hidden.y) : "");
    const draws = step?.draws ?? [];
    const paths = lines(layers.draws, Math.max(0, draws.length - 1));
    draws.slice(1).forEach((draw, i) => paths[i].setAttribute("d", search.line(step.at, draw)));
    layers.deciding.setAttribute("d", draws.length ? search.line(step.at, draws[0]) : "");
    layers.choice.replaceChildren();
    layers.places.replaceChildren();
    if (step?.places.length) drawPlaces();
    if (step) {
      const x = search.x(step.chosen);
      element("line", { class: "drop", x1: x, x2: x, y1: search.top, y2: search.bottom }, layers.choice);
      const lowest = draws.length ? Math.min(...draws[0]) : null;
      if (lowest !== null) element("circle", { class: "target", cx: x, cy: Math.min(search.y(lowest), search.bottom - 10), r: 8 }, layers.choice);
    }
    const least = Math.min(...evaluated.map(({ y }) => y));
    layers.seen.replaceChildren();
    evaluated.forEach(({ x, y }, index) => {
      const kind = y === least ? "best" : index === evaluated.length - 1 ? "newest" : "";
      element("circle", { class: `seen ${kind}`, cx: search.x(x), cy: search.y(y), r: kind ? 7 : 5.5 }, layers.seen);
    });
  }

  // The histogram of places along the bottom, and the value y* that they were drawn for, at the edge if it lies outside.
  function drawPlaces() {
    const { layers, left, right, bottom, top } = search;
    const shares = histogram(step.places, ...search.xs, BINS);
    const [most, width] = [Math.max(...shares), (right - left) / BINS];
    shares.forEach((share, i) => {
      const height = (share / most) * BARS * (bottom - top);
      if (share) element("rect", { class: "bar", x: left + i * width + 0.5, y: bottom - height, width: width - 1, height }, layers.places);
    });
    const y = Math.min(search.y(step.target), bottom - 2);
    element("line", { class: "drop", x1: left, x2: right, y1: y, y2: y }, layers.choice);
    const [x, anchor] = search.x(step.chosen) < (left + right) / 2 ? [right - 8, "end"] : [left + 8, "start"]; // out of the way
    const beyond = search.y(step.target) > bottom ? " ↓" : "";
    element("text", { class: "asked", x, y: y - 7, "text-anchor": anchor }, layers.choice).textContent = `y* = ${shown(step.target)}${beyond}`;
    element("circle", { class: "target", cx: search.x(step.chosen), cy: Math.min(y, bottom - 10), r: 8 }, layers.choice);
  }

  const log = (value) => Math.log10(Math.max(value, 1e-4));

  function drawLogGrid() {
    regrets.grid.replaceChildren();
    for (const power of ticks(...regrets.ys, 5).filter(Number.isInteger)) {
      const y = regrets.y(power);
      element("line", { x1: regrets.left, x2: regrets.right, y1: y, y2: y }, regrets.grid);
      element("text", { x: regrets.left - 8, y: y + 4, "text-anchor": "end" }, regrets.grid).textContent = String(10 ** power);
    }
    for (const count of ticks(...regrets.xs, 6).filter(Number.isInteger)) {
      element("text", { x: regrets.x(count), y: regrets.bottom + 18, "text-anchor": "middle" }, regrets.grid).textContent = String(count);
    }
    const middle = (regrets.left + regrets.right) / 2;
    element("text", { x: middle, y: regrets.bottom + 33, "text-anchor": "middle" }, regrets.grid).textContent = "evaluations";
  }

  function drawRegret() {
    if (!regrets.width) return;
    const xs = regret.map((_, i) => i + 1);
    const ys = regret.map(log);
    regrets.layers.line.setAttribute("d", xs.length ? regrets.line(xs, ys) : "");
    regrets.layers.dots.replaceChildren();
    xs.forEach((x, i) => element("circle", { class: "regret-dot", cx: regrets.x(x), cy: regrets.y(ys[i]), r: 3.2 }, regrets.layers.dots));
  }

  function showNumbers() {
    find("#count").textContent = evaluated.length;
    find("#best").textContent = evaluated.length ? shown(Math.min(...evaluated.map(({ y }) => y)), 3) : "–";
    find("#regret").textContent = regret.length ? shown(regret.at(-1), 4) : "–";
    regrets.setDomain([0.5, Math.max(10, regret.length) + 0.5], [Math.min(-2, ...regret.map(log)) - 0.2, Math.max(0.5, ...regret.map(log)) + 0.2]);
    find("#step").disabled = find("#run").disabled = evaluated.length >= MOST;
    root.dataset.evaluations = String(evaluated.length);
  }

  async function takeStep() {
    const mine = running;
    const model = state.method === "joint" ? "joint" : state.model;
    const asked = { method: state.method, model, function: state.function, seed: state.seed, evaluated: evaluated.map(({ x }) => x) };
    const answer = await post("api/optimise/step", asked);
    if (mine !== running) return false;
    step = answer;
    drawSearch();
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
    if (mine !== running) return false;
    evaluated.push({ x: answer.chosen, y: answer.value });
    regret = answer.regret;
    drawSearch();
    showNumbers();
    const how = answer.draws.length || answer.places.length ? METHODS[state.method].how : "at random, because too little is known";
    page.say(`Evaluation ${evaluated.length}: x = ${shown(answer.chosen, 3)}, ${how}: value ${shown(answer.value, 3)}, regret ${shown(regret.at(-1), 4)}`);
    return true;
  }

  async function run(count) {
    running += 1;
    try {
      for (let i = 0; i < count && evaluated.length < MOST; i += 1) {
        if (!(await takeStep())) return;
      }
    } catch (error) {
      page.say(error.message, true);
    }
  }

  async function startOver() {
    running += 1;
    [evaluated, regret, step] = [[], [], null];
    hidden = await get(`api/optimise/function/${state.function}`);
    const reach = Math.max(...hidden.y) - Math.min(...hidden.y);
    search.setDomain([hidden.x[0], hidden.x.at(-1)], [Math.min(...hidden.y) - 0.5 * reach, Math.max(...hidden.y) + 0.25 * reach]);
    showNumbers();
    page.say("The first two points are random");
  }

  function radio(key, group, value, words) {
    const label = choice(group, value, words, () => {
      state[key] = value;
      showMethod();
      startOver();
    });
    label.firstChild.checked = value === state[key];
    return label;
  }

  function showMethod() {
    find(".lead").textContent = METHODS[state.method].lead;
    for (const part of root.querySelectorAll("[data-method]")) part.hidden = part.dataset.method !== state.method;
  }

  async function showMethods() {
    const known = (await get("api/optimise/methods")).filter((method) => METHODS[method]);
    find("#methods").hidden = known.length < 2;
    find("#methods .models").append(...known.map((method) => radio("method", "method", method, METHODS[method])));
  }

  find("#searchers").append(...models.map(({ name: value, title: words }) => radio("model", "searcher", value, { title: words })));
  showMethod();
  showMethods().catch((error) => page.say(error.message, true));
  find("#step").addEventListener("click", () => run(1));
  find("#run").addEventListener("click", () => run(10));
  find("#again").addEventListener("click", startOver);
  find("#fresh").addEventListener("click", () => {
    state.function = Math.floor(Math.random() * 1e6);
    startOver();
  });
  find("#reveal").addEventListener("change", drawSearch);

  return {
    shown() {
      history.replaceState(null, "", "#tab=optimise");
      if (!hidden) startOver();
    },
  };
}
