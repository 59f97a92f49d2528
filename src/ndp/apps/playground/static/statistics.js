// Statistics of draws at every input.

export const PROBABILITIES = [0.05, 0.25, 0.75, 0.95];

export const grid = (low, high, size) => Array.from({ length: size }, (_, i) => low + (i * (high - low)) / (size - 1));

// Mean, standard deviation and quantiles (linear between order statistics, as numpy's) of rows at each column.
export function summarise(rows) {
  const mean = [];
  const std = [];
  const quantiles = PROBABILITIES.map(() => []);
  for (let j = 0; j < rows[0].length; j += 1) {
    const column = Float64Array.from(rows, (row) => row[j]).sort();
    const average = column.reduce((sum, value) => sum + value, 0) / column.length;
    mean.push(average);
    std.push(Math.sqrt(column.reduce((sum, value) => sum + (value - average) ** 2, 0) / column.length));
    PROBABILITIES.forEach((probability, k) => {
      const place = probability * (column.length - 1);
      const below = Math.floor(place);
      const above = Math.min(below + 1, column.length - 1);
      quantiles[k].push(column[below] + (place - below) * (column[above] - column[below]));
    });
  }
  return { mean, std, quantiles };
}

// Shares of values in equal bins, as a density.
export function histogram(values, low, high, bins) {
  const counts = new Array(bins).fill(0);
  for (const value of values) {
    const bin = Math.floor(((value - low) / (high - low)) * bins);
    if (bin >= 0 && bin < bins) counts[bin] += 1;
  }
  return counts.map((count) => (count * bins) / (values.length * (high - low)));
}

export const normalDensity = (value, mean, std) =>
  Math.exp(-(((value - mean) / std) ** 2) / 2) / (std * Math.sqrt(2 * Math.PI));
