// A picture whose pixels are shown, hidden or drawn with a brush: by mouse, finger, or arrow keys and Space.

import { paint, rounded } from "./pixels.js";

const GHOST = 0.2; // opacity of hidden pixels
const FULL = 1; // px from the middle of a stroke that are white
const FADED = 1.8; // px from the middle of a stroke at which it ends
const CERTAIN = 1.25; // px from the middle of a stroke that are known; a known edge would end the line there

export class PictureEditor {
  // `edit` has tool(), brush(), changed() and moved(row, column, known).
  constructor(canvas, cursor, edit) {
    Object.assign(this, { canvas, cursor, edit, size: 1, channels: 1, values: null, known: null, row: 0, column: 0 });
    let last = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !event.isPrimary || !this.values) return;
      canvas.setPointerCapture(event.pointerId);
      last = this.at(event);
      this.stroke(last, last);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!last) return;
      const next = this.at(event);
      this.stroke(last, next);
      last = next;
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (last = null));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  set(values, known, size, channels) {
    if (size !== this.size) [this.row, this.column] = [Math.floor(size / 2), Math.floor(size / 2)];
    Object.assign(this, { values, known, size, channels });
    this.draw();
  }

  draw() {
    paint(this.canvas, this.values, this.channels, (i) => (this.known[i] ? 1 : GHOST));
    const share = (place) => `${(100 * place) / this.size}%`;
    Object.assign(this.cursor.style, { left: share(this.column), top: share(this.row), width: share(1), height: share(1) });
  }

  // From a pointer to pixels, of which the first has its centre at 0.5.
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return { x: ((event.clientX - box.left) / box.width) * this.size, y: ((event.clientY - box.top) / box.height) * this.size };
  }

  stroke(from, to) {
    const steps = Math.max(1, Math.ceil(2 * Math.hypot(to.x - from.x, to.y - from.y)));
    for (let k = 1; k <= steps; k += 1) this.dab(from.x + (k / steps) * (to.x - from.x), from.y + (k / steps) * (to.y - from.y));
    this.draw();
    this.edit.changed();
  }

  dab(x, y) {
    const { size } = this;
    const tool = this.edit.tool();
    const reach = tool === "draw" ? FADED : this.edit.brush() / 2;
    for (let row = Math.max(0, Math.floor(y - reach)); row <= Math.min(size - 1, y + reach); row += 1) {
      for (let column = Math.max(0, Math.floor(x - reach)); column <= Math.min(size - 1, x + reach); column += 1) {
        const distance = Math.hypot(column + 0.5 - x, row + 0.5 - y);
        const under = Math.floor(x) === column && Math.floor(y) === row;
        if (distance > reach && !under) continue;
        const i = row * size + column;
        if (tool !== "draw") {
          this.known[i] = Number(tool === "show");
          continue;
        }
        if (distance <= CERTAIN) this.known[i] = 1;
        const ink = Math.min(1, Math.max(0, (FADED - distance) / (FADED - FULL)));
        this.values[i] = rounded(Math.max(this.values[i], ink));
      }
    }
  }

  key(event) {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!this.values || (!move && event.key !== " " && event.key !== "Enter")) return;
    event.preventDefault();
    if (move) {
      const step = event.shiftKey ? 4 : 1;
      const within = (place) => Math.min(this.size - 1, Math.max(0, place));
      this.row = within(this.row + step * move[0]);
      this.column = within(this.column + step * move[1]);
      this.draw();
      this.edit.moved(this.row, this.column, Boolean(this.known[this.row * this.size + this.column]));
    } else {
      const here = { x: this.column + 0.5, y: this.row + 0.5 };
      this.stroke(here, here);
    }
  }
}
