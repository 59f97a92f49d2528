// The theme that was chosen on this page, or the theme of the system; set before the first paint.
(() => {
  const chosen = localStorage.getItem("ndp-theme");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = chosen || (dark ? "dark" : "light");
})();
