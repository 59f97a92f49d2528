// Before the first paint: the theme that was chosen here, or the system's.
(() => {
  const chosen = localStorage.getItem("ndp-theme");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = chosen || (dark ? "dark" : "light");
})();
