// A radio button with a title and a description.

export function choice(group, value, { title, about = "" }, chosen) {
  const label = document.createElement("label");
  const radio = Object.assign(document.createElement("input"), { type: "radio", name: group, value });
  radio.addEventListener("change", chosen);
  label.append(radio, Object.assign(document.createElement("strong"), { textContent: title }));
  if (about) label.append(Object.assign(document.createElement("small"), { textContent: about }));
  return label;
}
