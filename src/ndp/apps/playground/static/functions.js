// The tab Functions: click points, see functions appear.

import { readAddress, writeAddress } from "./address.js";
import { Answers, MORE, MORE_DRAWS } from "./answers.js";
import { post } from "./api.js";
import { shown } from "./chart.js";
import { choice } from "./choice.js";
import { readObservations, writeDraws } from "./csv.js";
import { Denoising } from "./denoising.js";
import { copyText, download, picture } from "./download.js";
import { FACTS, askDraws, factsInWords } from "./facts.js";
import { TEMPLATE } from "./functions_template.js";
import { Points } from "./points.js";
import { PosteriorChart } from "./posterior_chart.js";
import { pythonFor } from "./python.js";
import { grid } from "./statistics.js";
import { acceptTables } from "./tables.js";

export const name = "functions";
export const title = "Functions";
export const available = ({ models }) => models.length > 0;

const SIZE = 120; // points of a drawn function
const MOST_POINTS = 100;

export function create(root, page) {
  root.innerHTML = TEMPLATE;
  const find = (selector) => root.querySelector(selector);
  const svg = find("#posterior");
  const state = { model: page.models[0].name, points: [], draws: 32, calls: 7, seed: 0, at: 0, show: ["draws", "mean", "fan"], facts: [] };
  const kept = new Map(); // points by the range of inputs that they were set in
  let selected = null;
  let saving = 0;

  const model = () => page.models.find((one) => one.name === state.model);
  const at = () => grid(model().low, model().high, SIZE);
  const view = new PosteriorChart(svg, placeOverlays);
  const points = new Points(view.chart, view.chart.layers.points, { add, move: moved, remove, select });
  const context = () => state.points.map(({ x, y, noise }) => ({ x, y, noise }));
  const question = (extra = {}) => ({ model: state.model, context: context(), at: at(), draws: state.draws, steps: state.calls, seed: state.seed, facts: state.facts, ...extra });
  const answers = new Answers(svg, view, { model, question, askExact, show, failed });
  const film = new Denoising(
    (draws, ratio) => {
      view.showDraws(draws);
      find(".noise-level").textContent = `noise / signal ${ratio >= 1 ? ratio.toFixed(1) : ratio.toFixed(3)}`;
    },
    () => {
      svg.classList.remove("denoising");
      find(".noise-level").textContent = "";
      find("#animate").textContent = "Watch the denoising";
      view.showDraws(answers.draws);
    },
  );

  function show({ draws, exact, warning, seconds }, asked) {
    showExact(exact);
    const given = asked.context.length;
    const how = asked.facts.length ? factsInWords(asked.facts) : `${asked.steps} solver calls`;
    const said = `${draws.length} draw${draws.length === 1 ? "" : "s"} given ${given} point${given === 1 ? "" : "s"}, ${how}, ${seconds.toFixed(2)} s`;
    page.say(warning ? `${said}. ${warning}` : said, Boolean(warning));
  }

  function failed(error) {
    svg.dataset.state = "idle";
    page.say(error.message, true);
  }

  // After a change: send a new request, and stop the ones for the old points.
  function update() {
    answers.stop();
    film.stop();
    svg.dataset.state = "busy";
    showPoints();
    save();
    answers.ask();
  }

  async function askExact(asked) {
    if (!state.show.includes("exact") || !model().exact || asked.facts.length) return null;
    return post("api/exact", { model: asked.model, context: asked.context, at: asked.at });
  }

  function showExact(exact) {
    const gaussian = ["se", "matern52"].includes(state.model);
    view.setExact(exact?.summary ? { ...exact.summary, gaussian } : null);
    const legend = find(".legend .is-exact");
    legend.hidden = !state.show.includes("exact") || !model().exact || state.facts.length > 0;
    legend.querySelector("i").textContent = exact && !exact.summary ? `no exact posterior: ${exact.reason}` : model().exact;
  }

  // Points

  function add(x, y, noise = 0) {
    if (state.points.length >= MOST_POINTS) return page.say(`The page takes at most ${MOST_POINTS} points`, true);
    const point = { x, y, noise };
    state.points.push(point);
    selected = point;
    update();
    return point;
  }

  function moved() {
    update();
  }

  function remove(point) {
    const index = state.points.indexOf(point);
    if (index < 0) return;
    state.points.splice(index, 1);
    selected = state.points[Math.min(index, state.points.length - 1)] ?? null;
    update();
    if (selected && svg.contains(document.activeElement)) points.focus(selected);
  }

  function select(point) {
    if (selected === point) return;
    selected = point;
    showPoints();
  }

  function showPoints() {
    points.show(state.points, selected);
    find("#selected").querySelectorAll("input, #remove").forEach((control) => (control.disabled = !selected));
    find("#clear").disabled = !state.points.length;
    const typing = document.activeElement;
    for (const axis of ["x", "y"]) {
      const input = find(`#point-${axis}`);
      if (input !== typing) input.value = selected ? Number(selected[axis].toFixed(3)) : "";
    }
    find("#noise").value = selected?.noise ?? 0;
    find("#noise").nextElementSibling.textContent = selected ? shown(selected.noise) : "";
  }

  function setPoints(list) {
    state.points = list.map(({ x, y, noise = 0 }) => ({ x, y, noise }));
    selected = null;
    fitView();
    update();
  }

  // Model and view

  function fitView() {
    const { low, high, value_low: bottom, value_high: top } = model();
    const ys = state.points.flatMap(({ y, noise }) => [y - 2 * noise, y + 2 * noise]);
    const reach = [Math.min(bottom, ...ys), Math.max(top, ...ys)];
    const slack = reach[0] < bottom || reach[1] > top ? 0.06 * (reach[1] - reach[0]) : 0;
    view.setModel(at(), [low, high], [reach[0] < bottom ? reach[0] - slack : bottom, reach[1] > top ? reach[1] + slack : top]);
    const slice = find("#slice");
    Object.assign(slice, { min: low, max: high });
    state.at = Math.min(high, Math.max(low, state.at));
    slice.value = state.at;
    view.setSlice(state.at);
  }

  function setModel(next) {
    const range = ({ low, high }) => `${low} ${high}`;
    const before = model();
    kept.set(range(before), state.points);
    state.model = next;
    if (state.calls === before.calls) state.calls = model().calls;
    const same = range(before) === range(model());
    const untouched = JSON.stringify(state.points) === JSON.stringify(before.example) && model().example.length;
    if (same && untouched) state.points = model().example.map((point) => ({ ...point }));
    if (!same) state.points = kept.get(range(model())) ?? model().example.map((point) => ({ ...point }));
    if (!state.points.includes(selected)) selected = null;
    fitView();
    showControls();
    update();
  }

  function showControls() {
    for (const radio of root.querySelectorAll("[name=model]")) radio.checked = radio.value === state.model;
    for (const key of ["draws", "calls"]) {
      find(`#${key}`).value = state[key];
      find(`#${key}`).nextElementSibling.textContent = state[key];
    }
    for (const box of root.querySelectorAll("#show input")) box.checked = state.show.includes(box.value);
    find("#show [value=exact]").disabled = !model().exact;
    for (const box of root.querySelectorAll("#facts input")) box.checked = state.facts.includes(box.value);
    find("#calls").disabled = find("#animate").disabled = state.facts.length > 0;
    view.setShown(state.show);
  }

  function placeOverlays() {
    points.show(state.points, selected);
    const { left, right } = view.chart;
    Object.assign(find("#slice").style, { marginLeft: `${left - 9}px`, width: `${right - left + 18}px` });
  }

  function save() {
    clearTimeout(saving);
    saving = setTimeout(() => page.tab === name && writeAddress({ ...state, tab: name }), 150);
  }

  // Controls

  find(".models").append(...page.models.map((one) => choice("model", one.name, one, () => setModel(one.name))));
  for (const key of ["draws", "calls"]) {
    find(`#${key}`).addEventListener("input", (event) => {
      state[key] = Number(event.target.value);
      showControls();
      update();
    });
  }
  find("#show").addEventListener("change", () => {
    state.show = [...root.querySelectorAll("#show input:checked")].map((box) => box.value);
    showControls();
    save();
    if (state.show.includes("exact")) askExact(question()).then(showExact, failed);
    else showExact(null);
  });
  find("#facts").addEventListener("change", ({ target }) => {
    const opposite = target.checked && FACTS.find((fact) => fact.name === target.value).not;
    const told = [...root.querySelectorAll("#facts input:checked")].map((box) => box.value);
    state.facts = told.filter((fact) => fact !== opposite);
    showControls();
    update();
  });
  find("#slice").addEventListener("input", (event) => {
    state.at = Number(event.target.value);
    view.setSlice(state.at);
    save();
    answers.stop();
    if (answers.draws.length) answers.rest();
  });
  find("#noise").addEventListener("input", (event) => {
    if (!selected) return;
    selected.noise = Number(event.target.value);
    update();
  });
  for (const axis of ["x", "y"]) {
    find(`#point-${axis}`).addEventListener("input", (event) => {
      const value = event.target.valueAsNumber;
      const [low, high] = axis === "x" ? [model().low, model().high] : [-1000, 1000];
      if (!selected || !(value >= low && value <= high)) return;
      selected[axis] = value;
      if (axis === "y" && (value < view.chart.ys[0] || value > view.chart.ys[1])) fitView();
      update();
    });
  }
  svg.addEventListener("keydown", (event) => {
    if (event.target !== svg || event.key !== "Enter") return;
    const value = view.summary?.mean[view.column] ?? 0;
    const point = add(state.at, value);
    if (point) points.focus(point);
  });

  const buttons = {
    remove: () => selected && remove(selected),
    clear: () => setPoints([]),
    reseed: () => {
      state.seed = Math.floor(Math.random() * 1e6);
      update();
    },
    animate: async () => {
      if (film.playing) return film.stop();
      answers.stop();
      const asked = question({ trajectory: true });
      const { draws, trajectory } = await askDraws(asked);
      answers.draws = draws;
      svg.classList.add("denoising");
      find("#animate").textContent = "Stop";
      film.play(trajectory, draws);
    },
    python: async () => {
      const exact = state.show.includes("exact");
      await copyText(pythonFor({ ...state, model: model(), at: at(), more: MORE, moreDraws: MORE_DRAWS, exact }));
      page.say("Copied: the Python program that computes the numbers on the screen");
    },
    link: async () => {
      writeAddress({ ...state, tab: name });
      await copyText(location.href);
      page.say("Copied: a link to what is on the screen");
    },
    png: async () => download(`ndp-${state.model}.png`, await picture(svg)),
    csv: () => {
      const { mean, std } = view.summary;
      download(`ndp-${state.model}.csv`, writeDraws(at(), mean, std, answers.draws), "text/csv");
    },
    open: () => find("#file").click(),
  };
  for (const [id, act] of Object.entries(buttons)) {
    find(`#${id}`).addEventListener("click", async () => {
      try {
        await act();
      } catch (error) {
        failed(error);
      }
    });
  }

  // Tables

  function readTable(text) {
    try {
      const list = readObservations(text, { low: model().low, high: model().high, most: MOST_POINTS });
      setPoints(list);
      page.say(`${list.length} points read`);
    } catch (error) {
      page.say(error.message, true);
    }
  }

  acceptTables(root, readTable, () => page.tab === name);

  // The state in the address, or an example.
  function fromAddress() {
    const address = readAddress();
    const given = address.tab === null || address.tab === name ? address : {}; // of another tab, nothing
    const known = page.models.some((one) => one.name === given.model);
    state.model = known ? given.model : state.model;
    state.calls = model().calls;
    for (const key of ["draws", "calls", "seed", "at"]) state[key] = given[key] ?? state[key];
    state.show = given.show?.filter((one) => ["draws", "mean", "fan", "exact"].includes(one)) ?? state.show;
    state.facts = FACTS.map((fact) => fact.name).filter((fact) => given.facts?.includes(fact));
    const inside = (given.points ?? model().example).filter(({ x }) => x >= model().low && x <= model().high);
    showControls();
    setPoints(inside);
  }

  let begun = false;
  return {
    shown() {
      const given = readAddress();
      const elsewhere = begun && given.tab === null && given.model !== null && writeKey(given) !== writeKey(state);
      if (!begun || elsewhere) fromAddress();
      else save();
      begun = true;
    },
  };
}

// A key of the state, to compare the address with the page.
const writeKey = ({ model, points, draws, calls, seed, facts }) =>
  JSON.stringify([model, facts ?? [], (points ?? []).map(({ x, y, noise }) => [x, y, noise].map((v) => v.toFixed(3))), draws, calls, seed]);
