// The Python program that computes the numbers on the screen.

import { FACTS, FACT_POINTS } from "./facts.js";

const list = (values) => `[${values.map((value) => Number(value.toFixed(6))).join(", ")}]`;

export function pythonFor({ model, points, at, draws, calls, seed, more, moreDraws, exact, facts = [] }) {
  const noisy = points.some((point) => point.noise > 0);
  const noise = noisy ? `, noise=np.array(${list(points.map((point) => point.noise))})` : "";
  const dependence = model.name === "universal" ? ', dependence="network"' : ""; // whose steps the page shows
  const told = FACTS.filter(({ name }) => facts.includes(name)).map(({ code }) => code(at[0], at.at(-1)));
  const given = told.length ? `.given(${told.join(", ")}, num_particles=64)` : "";
  const how = told.length ? "" : `${dependence}, steps=${calls}`;
  const code = `import numpy as np
import torch

import ndp
${told.length ? "from ndp.facts import Bounds, Integral, Monotone\n" : ""}
x = np.array(${list(points.map((point) => point.x))})
y = np.array(${list(points.map((point) => point.y))})
posterior = ndp.load("${model.name}").condition(x, y${noise})${given}
grid = np.linspace(${at[0]}, ${at.at(-1)}, ${told.length ? FACT_POINTS : at.length})


def draw(count, seed):
    return posterior.sample(grid, count${how}, generator=torch.Generator().manual_seed(seed))


draws = draw(${draws}, ${seed})  # the lines
functions = np.concatenate([draws, *(draw(${moreDraws}, ${seed} + k) for k in range(1, ${more + 1}))])
mean, std = functions.mean(0), functions.std(0)
fan = np.quantile(functions, [0.05, 0.25, 0.75, 0.95], axis=0)
`;
  if (!exact || told.length || !["se", "matern52"].includes(model.name)) return code;
  return `${code}exact = ndp.load("gp-${model.name}").condition(x, y${noise})
exact_mean, exact_std = exact.moments(grid, observation_noise=True)  # the model's functions carry their noise
`;
}

// `picture` is the origin of the picture: { seed } of the model, { ink } of the user in hexadecimal digits, or neither for a file.
export function pythonForPicture({ model, picture, known, draws, perRequest, calls, seed }) {
  const size = model.size;
  const made = {
    seed: ({ seed: own, calls: steps }) => `nothing = np.zeros((${size}, ${size}), dtype=bool)
picture = complete(model, np.zeros((${size}, ${size}, ${model.channels})), nothing, 1, steps=${steps}, seed=${own})[0]`,
    ink: ({ ink }) => `picture = np.array([int(digit, 16) / 15 for digit in "${ink}"]).reshape(${size}, ${size}, 1)`,
    file: () => `picture = read_picture(Path("picture.png"), size=${size}, channels=${model.channels})  # your file`,
  };
  const kind = Object.keys(made).find((one) => picture[one] !== undefined) ?? "file";
  const reading = kind === "file" ? "from pathlib import Path\n\n" : "";
  return `${reading}import numpy as np

import ndp
from ndp.apps.completing import complete
${kind === "file" ? "from ndp.core.io.images import read_picture\n" : ""}
model = ndp.load("${model.name}")
${made[kind](picture)}
known = np.unpackbits(np.frombuffer(bytes.fromhex("${known}"), dtype=np.uint8)).astype(bool).reshape(${size}, ${size})
completions = np.concatenate(
    [complete(model, picture, known, ${perRequest}, steps=${calls}, seed=${seed} + k) for k in range(${draws / perRequest})]
)
mean, spread = completions.mean(0), completions.std(0)
`;
}
