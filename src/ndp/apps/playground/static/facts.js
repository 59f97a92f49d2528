// Facts that functions can be told, and how the page says them.

export const FACTS = [
  { name: "not-negative", title: "Never negative", words: "never negative", code: () => "Bounds(low=0)" },
  { name: "increasing", title: "Increasing", words: "increasing", not: "decreasing", code: () => 'Monotone("increasing")' },
  { name: "decreasing", title: "Decreasing", words: "decreasing", not: "increasing", code: () => 'Monotone("decreasing")' },
  { name: "integral-one", title: "Integral of one", words: "of integral one", code: (low, high) => `Integral(${low}, ${high}, 1, 0.01)` },
];
export const TOLD_DRAWS = 64; // at most, in one request

export const factsInWords = (names) => FACTS.filter(({ name }) => names.includes(name)).map(({ words }) => words).join(", ");

// Where draws are asked for: `facts` are told by an endpoint of its own, which has no solver calls to set.
export function drawing({ facts, steps, ...asked }) {
  if (!facts.length) return ["api/draws", { ...asked, steps }];
  const { trajectory, ...told } = asked;
  return ["api/told", { ...told, facts }];
}
