// Downloads and the clipboard: files, pictures and text.

export function download(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export async function copyText(text) {
  if (navigator.clipboard && isSecureContext) {
    try {
      await navigator.clipboard.writeText(text);
      return;
    } catch {
      // not allowed: the old way below needs no permission
    }
  }
  const area = Object.assign(document.createElement("textarea"), { value: text });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

const STYLES = ["fill", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "opacity", "display", "font-size", "font-family"];

// The chart as it looks, on the colour of its card, at twice its size.
export async function picture(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((node, index) => {
    const style = getComputedStyle(originals[index]);
    for (const name of STYLES) node.setAttribute(name, style.getPropertyValue(name));
  });
  const { width, height } = svg.getBoundingClientRect();
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
  const pen = canvas.getContext("2d");
  pen.fillStyle = getComputedStyle(svg.closest(".card")).backgroundColor;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

// Small pictures side by side, each of their pixels `scale` wide, on the colour of the card they are on.
export async function strip(canvases, { scale, gap }) {
  const side = canvases[0].width * scale;
  const whole = Object.assign(document.createElement("canvas"), { width: canvases.length * (side + gap) + gap, height: side + 2 * gap });
  const pen = whole.getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.fillStyle = getComputedStyle(canvases[0].closest(".card")).backgroundColor;
  pen.fillRect(0, 0, whole.width, whole.height);
  canvases.forEach((canvas, index) => pen.drawImage(canvas, gap + index * (side + gap), gap, side, side));
  return new Promise((resolve) => whole.toBlob(resolve, "image/png"));
}
