// Tables that are opened, pasted or dropped: their text goes to `read`.

export function acceptTables(root, read, active) {
  const find = (selector) => root.querySelector(selector);
  find("#file").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (file) read(await file.slice(0, 1e6).text());
    event.target.value = "";
  });
  addEventListener("paste", (event) => {
    if (!active() || event.target.closest?.("input")) return;
    const text = event.clipboardData.getData("text");
    if (text) read(text);
  });
  const stage = find(".stage");
  stage.addEventListener("dragover", (event) => {
    event.preventDefault();
    stage.classList.add("receiving");
  });
  stage.addEventListener("dragleave", () => stage.classList.remove("receiving"));
  stage.addEventListener("drop", async (event) => {
    event.preventDefault();
    stage.classList.remove("receiving");
    const [file] = event.dataTransfer.files;
    read(file ? await file.slice(0, 1e6).text() : event.dataTransfer.getData("text"));
  });
}
