// Tables of observations: columns x (or x1), y and, if known, noise; as `ndp sample` reads and writes them.

export function readObservations(text, { low, high, most }) {
  const rows = text.replace(/^\uFEFF/, "").split(/\r?\n/).map((line) => line.split(/[,;\t]/).map((cell) => cell.trim()));
  const filled = rows.map((cells, index) => ({ cells, number: index + 1 })).filter(({ cells }) => cells.some(Boolean));
  if (!filled.length) throw new Error("The table is empty.");
  const named = filled[0].cells.some((cell) => cell !== "" && !Number.isFinite(Number(cell)));
  const header = named ? filled.shift().cells.map((cell) => cell.toLowerCase()) : ["x", "y", "noise"];
  const column = (...names) => header.findIndex((name) => names.includes(name));
  const places = { x: column("x", "x1"), y: column("y", "y1"), noise: column("noise") };
  if (places.x < 0 || places.y < 0) throw new Error(`The table needs columns x and y; it has ${header.join(", ")}.`);
  if (!filled.length) throw new Error("The table has no rows.");
  if (filled.length > most) throw new Error(`The table has ${filled.length} rows; at most ${most} fit on the page.`);
  return filled.map(({ cells, number }) => {
    const read = (name) => {
      const cell = cells[places[name]] ?? "";
      const value = cell === "" ? NaN : Number(cell);
      if (!Number.isFinite(value)) throw new Error(`Row ${number}: ${name} must be a number, not “${cell.slice(0, 20)}”.`);
      return value;
    };
    const point = { x: read("x"), y: read("y"), noise: 0 };
    if (places.noise >= 0 && (cells[places.noise] ?? "") !== "") point.noise = read("noise");
    if (point.x < low || point.x > high) throw new Error(`Row ${number}: x = ${point.x} is outside ${low} to ${high}, the range of this model.`);
    if (Math.abs(point.y) > 1000) throw new Error(`Row ${number}: y = ${point.y} is too large.`);
    if (point.noise < 0 || point.noise > 100) throw new Error(`Row ${number}: noise must be from 0 to 100.`);
    return point;
  });
}

export function writeDraws(at, mean, std, draws) {
  const header = ["x1", "mean", "std", ...draws.map((_, i) => `draw${i + 1}`)];
  const rows = at.map((x, j) => [x, mean[j], std[j], ...draws.map((draw) => draw[j])].map((v) => Number(v.toPrecision(9))));
  return [header, ...rows].map((row) => row.join(",")).join("\n") + "\n";
}
