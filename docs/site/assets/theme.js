// Before anything is painted: light or dark, as the reader chose or the system says.
(() => {
  let chosen;
  try { chosen = localStorage.getItem("theme"); } catch { /* not allowed here */ }
  document.documentElement.dataset.theme = chosen ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
})();
