// The chart of a posterior: fan, draws, mean, exact posterior, a slice, and beside it the density of the value at the slice.

import { Chart, Glide, element, lines } from "./chart.js";
import { histogram, normalDensity, summarise } from "./statistics.js";

const BINS = 41;

export class PosteriorChart {
  constructor(svg, onLayout) {
    this.chart = new Chart(svg, {
      aside: (width) => (width < 560 ? 72 : 158),
      layers: {
        fan: {},
        draws: {},
        mean: { tag: "path" },
        exact: {},
        slice: { tag: "line" },
        marginal: { clipped: false },
        points: {},
      },
      onLayout: () => {
        this.redraw();
        onLayout();
      },
    });
    Object.assign(this, { at: [], pool: [], exact: null, density: null, slice: 0, shows: new Set() });
    const { fan, exact } = this.chart.layers;
    this.bands = [element("path", { class: "wide" }, fan), element("path", { class: "narrow" }, fan)];
    this.exactLines = ["edge", "edge", ""].map((name) => element("path", { class: name }, exact));
    this.glide = new Glide((values) => this.drawPosterior(values));
  }

  setModel(at, xs, ys) {
    this.at = at;
    this.forget();
    this.chart.setDomain(xs, ys);
  }

  forget() {
    this.glide.forget();
    Object.assign(this, { pool: [], exact: null, density: null });
    this.drawPosterior({ draws: [], mean: [[]], quantiles: [[], [], [], []] });
  }

  setShown(names) {
    this.shows = new Set(names);
    for (const name of ["draws", "mean", "fan", "exact"]) this.chart.layers[name].classList.toggle("hidden", !this.shows.has(name));
    this.redraw();
  }

  // The first rows are the lines of the chart; all rows make the fan and the mean.
  setDraws(draws, more, done) {
    this.pool = [...draws, ...more];
    this.summary = summarise(this.pool);
    this.glide.to({ draws, mean: [this.summary.mean], quantiles: this.summary.quantiles }, done);
    this.drawMarginal();
  }

  setExact(summary) {
    this.exact = summary;
    const { chart, at } = this;
    const rows = summary ? [summary.quantiles[0], summary.quantiles[4], summary.mean] : [[], [], []];
    rows.forEach((row, index) => this.exactLines[index].setAttribute("d", row.length ? chart.line(at, row) : ""));
    this.drawMarginal();
  }

  // `density` is [[value, density], ...] at the slice.
  setDensity(density) {
    this.density = density;
    this.drawMarginal();
  }

  setSlice(x) {
    this.slice = x;
    this.density = null;
    const { chart } = this;
    for (const [key, value] of Object.entries({ x1: chart.x(x), x2: chart.x(x), y1: chart.top, y2: chart.bottom })) {
      chart.layers.slice.setAttribute(key, value);
    }
    this.drawMarginal();
  }

  // Draws at any noise level.
  showDraws(draws) {
    const paths = lines(this.chart.layers.draws, draws.length);
    draws.forEach((draw, i) => paths[i].setAttribute("d", this.chart.line(this.at, draw)));
  }

  drawPosterior({ draws, mean, quantiles }) {
    const { chart, at } = this;
    this.showDraws(draws);
    chart.layers.mean.setAttribute("d", mean[0].length ? chart.line(at, mean[0]) : "");
    this.bands.forEach((band, i) => {
      band.setAttribute("d", quantiles[i].length ? chart.band(at, quantiles[i], quantiles[3 - i]) : "");
    });
  }

  get column() {
    const [low, high] = [this.at[0], this.at.at(-1)];
    return Math.round(((this.slice - low) / (high - low)) * (this.at.length - 1));
  }

  drawMarginal() {
    const { chart, pool } = this;
    const layer = chart.layers.marginal;
    layer.replaceChildren();
    if (!pool.length || !chart.width) return;
    const [low, high] = chart.ys;
    const left = chart.right + 16;
    const room = chart.width - left - 4;
    const bars = histogram(pool.map((row) => row[this.column]), low, high, BINS);
    const curves = [];
    if (this.density) curves.push({ name: "curve", points: this.density });
    const gaussian = this.exact && this.shows.has("exact") && this.exact.gaussian;
    if (gaussian) {
      const [mean, std] = [this.exact.mean[this.column], this.exact.std[this.column]];
      const points = Array.from({ length: 121 }, (_, i) => low + (i * (high - low)) / 120);
      curves.push({ name: "exact-curve", points: points.map((y) => [y, normalDensity(y, mean, std)]) });
    }
    const most = Math.max(...bars, ...curves.flatMap((curve) => curve.points.map(([, density]) => density)));
    const across = (density) => left + (density / most) * room;
    element("line", { class: "axis", x1: left, x2: left, y1: chart.top, y2: chart.bottom }, layer);
    const height = (chart.bottom - chart.top) / BINS;
    bars.forEach((density, i) => {
      if (!density) return;
      const y = chart.bottom - (i + 1) * height;
      element("rect", { class: "bar", x: left, y: y + 0.5, width: across(density) - left, height: Math.max(1, height - 1) }, layer);
    });
    for (const { name, points } of curves) {
      const d = points.map(([y, density], i) => `${i ? "L" : "M"}${across(density).toFixed(1)} ${chart.y(y).toFixed(1)}`);
      element("path", { class: name, d: d.join("") }, layer);
    }
    const label = element("text", { x: left, y: chart.bottom + 18 }, layer);
    label.textContent = room > 100 ? `density at x = ${this.at[this.column].toFixed(2)}` : "density";
  }

  redraw() {
    if (!this.chart.width) return;
    if (this.glide.now) this.drawPosterior(this.glide.now);
    if (this.exact) this.setExact(this.exact);
    const { density } = this;
    this.setSlice(this.slice);
    this.setDensity(density);
  }
}
