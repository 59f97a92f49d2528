// An animation of the solver: from noise, level by level, to functions.

const SECONDS = 3.2;

export class Denoising {
  // `show(draws, ratio)` draws a frame; `end()` is called at the end.
  constructor(show, end) {
    Object.assign(this, { show, end, frame: 0, playing: false });
  }

  play(states, draws) {
    this.stop();
    const frames = [...states, { ratio: 0, values: draws }];
    this.playing = true;
    const start = performance.now();
    const step = (now) => {
      const place = Math.min(1, Math.max(0, (now - start) / (1000 * SECONDS))) * (frames.length - 1);
      const index = Math.min(frames.length - 2, Math.floor(place));
      const share = place - index;
      const [from, to] = [frames[index], frames[index + 1]];
      const values = from.values.map((row, i) => row.map((value, j) => value + share * (to.values[i][j] - value)));
      this.show(values, from.ratio * (Math.max(to.ratio, 1e-3) / from.ratio) ** share);
      if (place < frames.length - 1) this.frame = requestAnimationFrame(step);
      else this.stop();
    };
    this.frame = requestAnimationFrame(step);
  }

  stop() {
    if (!this.playing) return;
    cancelAnimationFrame(this.frame);
    this.playing = false;
    this.end();
  }
}
