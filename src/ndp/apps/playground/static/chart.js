// A chart in SVG: two linear axes, a grid, layers that are clipped to it, and values that glide to their new places.

export const GLIDE = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 60; // ms

export function element(name, attributes = {}, parent = null) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent?.append(made);
  return made;
}

export function ticks(low, high, about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((size) => size >= rough);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) found.push(k * step);
  return found;
}

export const shown = (value, digits = 2) => String(Number(value.toFixed(digits))).replace("-", "−");

export class Chart {
  // `aside` is the share of the width that is kept free on the right.
  constructor(svg, { layers, aside = () => 0, bottomLabel = "x", leftLabel = "y", onLayout }) {
    Object.assign(this, { svg, aside, bottomLabel, leftLabel, onLayout, xs: [0, 1], ys: [0, 1] });
    const clip = element("clipPath", { id: `${svg.id}-clip` }, element("defs", {}, svg));
    this.clip = element("rect", {}, clip);
    this.grid = element("g", { class: "grid", "aria-hidden": "true" }, svg);
    this.surface = element("rect", { class: "surface" }, svg);
    this.layers = {};
    for (const [name, options] of Object.entries(layers)) {
      const attributes = { class: options.class ?? name };
      if (options.clipped ?? true) attributes["clip-path"] = `url(#${svg.id}-clip)`;
      this.layers[name] = element(options.tag ?? "g", attributes, svg);
    }
    new ResizeObserver(() => this.layout()).observe(svg);
  }

  setDomain(xs, ys) {
    [this.xs, this.ys] = [xs, ys];
    this.layout();
  }

  layout() {
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width) return;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.width = width;
    this.left = width < 500 ? 34 : 44;
    this.right = width - this.aside(width) - 10;
    this.top = 10;
    this.bottom = height - 36;
    const area = { x: this.left, y: this.top, width: this.right - this.left, height: this.bottom - this.top };
    for (const [key, value] of Object.entries(area)) {
      this.clip.setAttribute(key, value);
      this.surface.setAttribute(key, value);
    }
    this.drawGrid();
    this.onLayout?.();
  }

  drawGrid() {
    this.grid.replaceChildren();
    for (const value of ticks(...this.xs, (this.right - this.left) / 95)) {
      const x = this.x(value);
      element("line", { x1: x, x2: x, y1: this.top, y2: this.bottom }, this.grid);
      element("text", { x, y: this.bottom + 18, "text-anchor": "middle" }, this.grid).textContent = shown(value);
    }
    for (const value of ticks(...this.ys, (this.bottom - this.top) / 60)) {
      const y = this.y(value);
      element("line", { x1: this.left, x2: this.right, y1: y, y2: y }, this.grid);
      element("text", { x: this.left - 8, y: y + 4, "text-anchor": "end" }, this.grid).textContent = shown(value);
    }
    const middle = (this.left + this.right) / 2;
    const bottom = element("text", { class: "label", x: middle, y: this.bottom + 34, "text-anchor": "middle" }, this.grid);
    bottom.textContent = this.bottomLabel;
    const left = element("text", { class: "label", x: 4, y: this.top + 8 }, this.grid);
    left.textContent = this.leftLabel;
  }

  x(value) {
    return this.left + ((value - this.xs[0]) / (this.xs[1] - this.xs[0])) * (this.right - this.left);
  }

  y(value) {
    return this.bottom - ((value - this.ys[0]) / (this.ys[1] - this.ys[0])) * (this.bottom - this.top);
  }

  // From a pointer to values, inside the axes.
  at(event) {
    const box = this.svg.getBoundingClientRect();
    const share = (place, from, to) => Math.min(1, Math.max(0, (place - from) / (to - from)));
    return {
      x: this.xs[0] + share(event.clientX - box.left, this.left, this.right) * (this.xs[1] - this.xs[0]),
      y: this.ys[1] - share(event.clientY - box.top, this.top, this.bottom) * (this.ys[1] - this.ys[0]),
    };
  }

  line(xs, ys) {
    let path = "";
    for (let i = 0; i < xs.length; i += 1) path += `${i ? "L" : "M"}${this.x(xs[i]).toFixed(1)} ${this.y(ys[i]).toFixed(1)}`;
    return path;
  }

  band(xs, low, high) {
    const back = this.line([...xs].reverse(), [...high].reverse());
    return `${this.line(xs, low)}${back.replace("M", "L")}Z`;
  }
}

// As many paths in a layer as there are lines.
export function lines(layer, count) {
  while (layer.childElementCount > count) layer.lastChild.remove();
  while (layer.childElementCount < count) element("path", {}, layer);
  return layer.children;
}

// Lists of lists of numbers that move from where they are to where they should be.
export class Glide {
  constructor(draw) {
    Object.assign(this, { draw, now: null, frame: 0 });
  }

  to(goal, done = () => {}) {
    cancelAnimationFrame(this.frame);
    const from = this.now;
    const comparable = (a, b) => a && b && a.length && b.length && a[0].length === b[0].length;
    if (!GLIDE || !from || !Object.keys(goal).every((key) => comparable(from[key], goal[key]))) {
      this.show(goal);
      done();
      return;
    }
    const start = performance.now();
    const step = (time) => {
      const share = Math.min(1, Math.max(0, (time - start) / GLIDE));
      const eased = 1 - (1 - share) ** 3;
      this.show(share === 1 ? goal : between(from, goal, eased));
      if (share < 1) this.frame = requestAnimationFrame(step);
      else done();
    };
    this.frame = requestAnimationFrame(step);
  }

  show(values) {
    this.now = values;
    this.draw(values);
  }

  forget() {
    cancelAnimationFrame(this.frame);
    this.now = null;
  }
}

function between(from, goal, share) {
  const mixed = {};
  for (const [key, rows] of Object.entries(goal)) {
    mixed[key] = rows.map((row, i) => {
      const old = from[key][i];
      return old ? row.map((value, j) => old[j] + share * (value - old[j])) : row;
    });
  }
  return mixed;
}
