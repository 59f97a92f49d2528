// Pictures as lists of numbers: how they are painted, which pixels are known, and how both are written in an address.

const LEVELS = 15; // shades of a picture drawn by hand, so that a link restores it exactly
const SPREAD = 0.35; // standard deviation that is shown in full colour
const SPREAD_COLOUR = [213, 94, 0];

export const PRESETS = {
  upper: { title: "Upper half", known: (row, column, size) => row < size / 2 },
  left: { title: "Left half", known: (row, column, size) => column < size / 2 },
  random5: { title: "5 %", share: 0.05 },
  random10: { title: "10 %", share: 0.1 },
  all: { title: "All", known: () => true },
  none: { title: "None", known: () => false },
};

export function preset(name, size) {
  const { known, share } = PRESETS[name];
  if (known) return Uint8Array.from({ length: size * size }, (_, i) => Number(known(Math.floor(i / size), i % size, size)));
  const order = Array.from({ length: size * size }, (_, i) => [Math.random(), i]).sort(([a], [b]) => a - b);
  const chosen = new Uint8Array(size * size);
  for (const [, i] of order.slice(0, Math.round(share * size * size))) chosen[i] = 1;
  return chosen;
}

export const rounded = (value) => Math.round(value * LEVELS) / LEVELS;

// A picture on a canvas of as many pixels; `opacity(i)` says how much of pixel i is seen of what lies behind the canvas.
export function paint(canvas, values, channels, opacity = () => 1) {
  const size = Math.sqrt(values.length / channels);
  if (canvas.width !== size) Object.assign(canvas, { width: size, height: size });
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(size, size);
  for (let i = 0; i < size * size; i += 1) {
    for (let colour = 0; colour < 3; colour += 1) {
      image.data[4 * i + colour] = 255 * values[channels * i + (channels === 3 ? colour : 0)];
    }
    image.data[4 * i + 3] = 255 * opacity(i);
  }
  pen.putImageData(image, 0, 0);
}

// The standard deviation of pictures at every pixel, as the strength of a colour.
export function paintSpread(canvas, spread) {
  const size = Math.sqrt(spread.length);
  const flat = new Float32Array(3 * spread.length).map((_, i) => SPREAD_COLOUR[i % 3] / 255);
  if (canvas.width !== size) Object.assign(canvas, { width: size, height: size });
  paint(canvas, flat, 3, (i) => Math.min(1, spread[i] / SPREAD));
}

// Mean, and standard deviation at every pixel (over its colours), of several pictures.
export function summarisePictures(pictures, channels) {
  const mean = pictures[0].map((_, j) => pictures.reduce((sum, values) => sum + values[j], 0) / pictures.length);
  const variance = mean.map((m, j) => pictures.reduce((sum, values) => sum + (values[j] - m) ** 2, 0) / pictures.length);
  const spread = new Float32Array(mean.length / channels).map((_, i) => {
    let sum = 0;
    for (let colour = 0; colour < channels; colour += 1) sum += variance[channels * i + colour];
    return Math.sqrt(sum / channels);
  });
  return { mean, spread };
}

// Four known pixels to a hexadecimal digit, or the name of a preset.
export function writeKnown(known) {
  const size = Math.sqrt(known.length);
  const same = (other) => other.every((value, i) => value === known[i]);
  const named = Object.keys(PRESETS).find((name) => PRESETS[name].known && same(preset(name, size)));
  return named ?? writeBits(known);
}

export function writeBits(known) {
  let text = "";
  for (let i = 0; i < known.length; i += 4) text += (8 * known[i] + 4 * known[i + 1] + 2 * known[i + 2] + known[i + 3]).toString(16);
  return text;
}

export function readKnown(text, size) {
  if (PRESETS[text]) return preset(text, size);
  if (!text || text.length !== (size * size) / 4 || !/^[0-9a-f]+$/.test(text)) return null;
  return Uint8Array.from({ length: size * size }, (_, i) => (parseInt(text[i >> 2], 16) >> (3 - (i % 4))) & 1);
}

// A grey picture drawn by hand: one hexadecimal digit a pixel.
export const writeInk = (values) => Array.from(values, (value) => Math.round(value * LEVELS).toString(16)).join("");

export function readInk(text, size) {
  if (!text || text.length !== size * size || !/^[0-9a-f]+$/.test(text)) return null;
  return Float32Array.from(text, (digit) => parseInt(digit, 16) / LEVELS);
}

// The middle square of a file's picture. Digits are white on black; a picture with a white edge is inverted.
export async function readFile(file, size, channels) {
  const whole = await createImageBitmap(file);
  const side = Math.min(whole.width, whole.height);
  const [left, top] = [(whole.width - side) / 2, (whole.height - side) / 2];
  const options = { resizeWidth: size, resizeHeight: size, resizeQuality: "high" };
  const square = await createImageBitmap(whole, left, top, side, side, options);
  const pen = Object.assign(document.createElement("canvas"), { width: size, height: size }).getContext("2d");
  pen.fillRect(0, 0, size, size);
  pen.drawImage(square, 0, 0);
  const { data } = pen.getImageData(0, 0, size, size);
  if (channels === 3) return new Float32Array(3 * size * size).map((_, j) => data[4 * Math.floor(j / 3) + (j % 3)] / 255);
  const grey = new Float32Array(size * size).map((_, i) => (0.299 * data[4 * i] + 0.587 * data[4 * i + 1] + 0.114 * data[4 * i + 2]) / 255);
  const edge = grey.filter((_, i) => i < size || i >= size * (size - 1) || i % size === 0 || i % size === size - 1);
  const onPaper = edge.reduce((sum, value) => sum + value, 0) / edge.length > 0.5;
  return grey.map((value) => rounded(onPaper ? 1 - value : value));
}
