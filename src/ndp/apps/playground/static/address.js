// The state of the page in its address, so that a link restores it.

const KEYS = { draws: [1, 64], calls: [2, 30], seed: [0, 2 ** 32 - 1] };

export function readAddress(hash = location.hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const state = { tab: given.get("tab"), model: given.get("model") };
  for (const [key, [low, high]] of Object.entries(KEYS)) {
    const value = Number(given.get(key));
    if (given.has(key) && Number.isInteger(value) && value >= low && value <= high) state[key] = value;
  }
  if (given.has("at") && Number.isFinite(Number(given.get("at")))) state.at = Number(given.get("at"));
  if (given.has("points")) state.points = given.get("points").split(";").filter(Boolean).map(readPoint).filter(Boolean).slice(0, 100);
  state.facts = (given.get("facts") ?? "").split(",").filter(Boolean);
  if (given.has("show")) state.show = given.get("show").split(",");
  return state;
}

export function writeAddress(state) {
  const points = state.points.map(({ x, y, noise }) => [x, y, ...(noise ? [noise] : [])].map((v) => Number(v.toFixed(4))).join(","));
  const parts = [
    ...(state.tab === "functions" ? [] : [`tab=${state.tab}`]),
    `model=${state.model}`,
    `points=${points.join(";")}`,
    `draws=${state.draws}`,
    `calls=${state.calls}`,
    `seed=${state.seed}`,
    `at=${Number(state.at.toFixed(4))}`,
    `show=${state.show.join(",")}`,
    ...(state.facts?.length ? [`facts=${state.facts.join(",")}`] : []),
  ];
  history.replaceState(null, "", `#${parts.join("&")}`);
}

function readPoint(text) {
  const [x, y, noise = 0] = text.split(",").map(Number);
  return [x, y, noise].every(Number.isFinite) && noise >= 0 && noise <= 100 && Math.abs(y) <= 1000 ? { x, y, noise } : null;
}
