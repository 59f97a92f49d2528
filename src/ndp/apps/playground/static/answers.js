// The server's answers on the tab Functions: draws for the newest points, and what follows once the page is at rest.

import { Latest, post } from "./api.js";
import { askDraws } from "./facts.js";
import { grid } from "./statistics.js";

export const MORE = 3; // further batches for a smoother fan and mean, once the page is at rest
export const MORE_DRAWS = 32;
const REST = 450; // ms
const DENSITIES = 64; // values at which the density of a slice is computed

export class Answers {
  // `tab` has model(), question(extra), askExact(asked), show(answer, asked) and failed(error).
  constructor(svg, view, tab) {
    Object.assign(this, { svg, view, tab, draws: [], more: [], resting: 0, refining: null });
    this.live = new Latest(
      async (asked) => {
        const begun = performance.now();
        const [drawn, exact] = await Promise.all([askDraws(asked), tab.askExact(asked)]);
        return { draws: drawn.draws, warning: drawn.warning, exact, seconds: (performance.now() - begun) / 1000 };
      },
      (answer, asked, newest) => {
        if (asked.model !== tab.model().name) return;
        Object.assign(this, { draws: answer.draws, more: [] });
        view.setDraws(this.draws, [], () => this.settled(newest));
        tab.show(answer, asked);
      },
      tab.failed,
    );
  }

  ask() {
    this.live.ask(this.tab.question());
  }

  // Stop the requests for the old points.
  stop() {
    clearTimeout(this.resting);
    this.refining?.abort();
  }

  rest() {
    this.resting = setTimeout(() => this.refine(), REST);
  }

  settled(newest) {
    this.svg.dataset.draws = String(this.draws.length);
    if (!newest) return;
    this.svg.dataset.state = "drawn";
    this.svg.dispatchEvent(new CustomEvent("settled"));
    this.rest();
  }

  // At rest: more draws, and the exact density at the slice.
  async refine() {
    this.refining = new AbortController();
    const { signal } = this.refining;
    try {
      await this.sliceDensity(signal);
      while (this.more.length < MORE * MORE_DRAWS) {
        const seed = (this.tab.question().seed + 1 + this.more.length / MORE_DRAWS) % 2 ** 32;
        const { draws } = await askDraws(this.tab.question({ seed, draws: MORE_DRAWS }), signal);
        this.more.push(...draws);
        this.view.setDraws(this.draws, this.more, () => {});
      }
      this.svg.dataset.state = "idle";
    } catch (error) {
      if (error.name !== "AbortError") this.tab.failed(error);
    }
  }

  async sliceDensity(signal) {
    const { view } = this;
    const { noise_floor: floor } = this.tab.model();
    if (floor === 0 || this.tab.question().facts.length) return; // jumps between two values have no density, nor have particles
    const [bottom, top] = view.chart.ys;
    const drawn = [...this.draws, ...this.more].map((row) => row[view.column]);
    const reach = Math.max(Math.max(...drawn) - Math.min(...drawn), 0.08 * (top - bottom));
    const [low, high] = [Math.max(bottom, Math.min(...drawn) - 0.25 * reach), Math.min(top, Math.max(...drawn) + 0.25 * reach)];
    if (!(low < high)) return;
    const values = grid(low, high, DENSITIES);
    // The density of functions with almost no noise is too peaked to show: add a little noise.
    const sharp = floor < 0.01;
    const noise = sharp ? 0.03 * (top - bottom) : 0;
    const { model, context } = this.tab.question();
    const asked = { model, context, at: [view.at[view.column]], values: values.map((y) => [y]), noise, steps: sharp ? 16 : 10 };
    const { log_density: logs } = await post("api/log-density", asked, signal);
    view.setDensity(values.map((y, i) => [y, Math.exp(logs[i])]));
  }
}
