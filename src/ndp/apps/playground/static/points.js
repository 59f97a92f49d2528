// Observations on a chart: click adds, drag and arrow keys move, double-click and Delete remove.

import { element, shown } from "./chart.js";

const REACH = 18; // px around a point that count as the point, for fingers
const STILL = 5; // px that the pointer may move during a click

export class Points {
  // `edit` has add(x, y), move(point), remove(point) and select(point).
  constructor(chart, layer, edit) {
    Object.assign(this, { chart, layer, edit, nodes: new Map() });
    let pressed = null;
    chart.surface.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && event.isPrimary) pressed = event;
    });
    chart.surface.addEventListener("pointerup", (event) => {
      const near = pressed && Math.hypot(event.clientX - pressed.clientX, event.clientY - pressed.clientY) < STILL;
      pressed = null;
      if (near) {
        const { x, y } = chart.at(event);
        edit.add(x, y);
      }
    });
    chart.surface.addEventListener("pointercancel", () => (pressed = null));
  }

  show(points, selected) {
    for (const [point, node] of this.nodes) {
      if (!points.includes(point)) {
        node.group.remove();
        this.nodes.delete(point);
      }
    }
    points.forEach((point, index) => {
      const node = this.nodes.get(point) ?? this.make(point);
      const [x, y] = [this.chart.x(point.x), this.chart.y(point.y)];
      node.group.setAttribute("transform", `translate(${x} ${y})`);
      node.group.classList.toggle("selected", point === selected);
      const noise = point.noise ? `, noise ${shown(point.noise)}` : "";
      const place = `x ${shown(point.x)}, y ${shown(point.y)}${noise}`;
      node.group.setAttribute("aria-label", `Point ${index + 1}: ${place}. Arrow keys move it, Delete removes it.`);
      const reach = Math.abs(this.chart.y(point.y + 2 * point.noise) - y);
      node.bar.setAttribute("d", point.noise ? `M0 ${-reach}V${reach}M-5 ${-reach}H5M-5 ${reach}H5` : "");
    });
  }

  focus(point) {
    this.nodes.get(point)?.group.focus({ preventScroll: true });
  }

  make(point) {
    const group = element("g", { class: "point", tabindex: 0, role: "button" }, this.layer);
    element("circle", { class: "touch", r: REACH }, group);
    const bar = element("path", { class: "bar" }, group);
    element("circle", { class: "ring", r: 11 }, group);
    element("circle", { class: "dot", r: 6.5 }, group);
    const node = { group, bar };
    this.nodes.set(point, node);

    let dragging = false;
    group.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      dragging = true;
      group.setPointerCapture(event.pointerId);
      this.edit.select(point);
    });
    group.addEventListener("pointermove", (event) => {
      if (!dragging) return;
      Object.assign(point, this.chart.at(event));
      this.edit.move(point);
    });
    for (const end of ["pointerup", "pointercancel"]) group.addEventListener(end, () => (dragging = false));
    group.addEventListener("dblclick", () => this.edit.remove(point));
    group.addEventListener("focus", () => this.edit.select(point));
    group.addEventListener("keydown", (event) => this.key(event, point));
    return node;
  }

  key(event, point) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (event.key === "Delete" || event.key === "Backspace") {
      event.preventDefault();
      this.edit.remove(point);
    } else if (event.key in moves) {
      event.preventDefault();
      const { xs, ys } = this.chart;
      const size = event.shiftKey ? 0.05 : 0.01;
      const [right, up] = moves[event.key];
      point.x = Math.min(xs[1], Math.max(xs[0], point.x + right * size * (xs[1] - xs[0])));
      point.y = Math.min(ys[1], Math.max(ys[0], point.y + up * size * (ys[1] - ys[0])));
      this.edit.move(point);
    }
  }
}
