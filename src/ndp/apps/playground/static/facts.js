// Facts about functions, how the page says them, and the draws that agree with them.

import { post } from "./api.js";
import { grid } from "./statistics.js";

export const FACTS = [
  { name: "not-negative", title: "Never negative", words: "never negative", code: () => "Bounds(low=0)" },
  { name: "increasing", title: "Increasing", words: "increasing", not: "decreasing", code: () => 'Monotone("increasing")' },
  { name: "decreasing", title: "Decreasing", words: "decreasing", not: "increasing", code: () => 'Monotone("decreasing")' },
  { name: "integral-one", title: "Integral of one", words: "of integral one", code: (low, high) => `Integral(${low}, ${high}, 1, 0.01)` },
];
export const FACT_POINTS = 40; // at which facts hold; lines between them hold them too

export const factsInWords = (names) => FACTS.filter(({ name }) => names.includes(name)).map(({ words }) => words).join(", ");

// Draws for a question of the page. Facts have an endpoint of their own, without solver calls to set.
export async function askDraws({ facts, ...asked }, signal) {
  if (!facts.length) return post("api/draws", asked, signal);
  const { model, context, draws, seed } = asked;
  const at = grid(asked.at[0], asked.at.at(-1), FACT_POINTS);
  const given = await post("api/given", { model, context, at, draws, seed, facts }, signal);
  return { ...given, draws: given.draws.map((row) => asked.at.map((x) => between(at, row, x))) };
}

function between(at, row, x) {
  const place = ((x - at[0]) / (at.at(-1) - at[0])) * (at.length - 1);
  const left = Math.min(Math.floor(place), at.length - 2);
  return row[left] + (place - left) * (row[left + 1] - row[left]);
}
