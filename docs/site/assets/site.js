// What pages do beside being read: colours, copying, the search, the menu of a phone.
import hljs from "./vendor/highlight.js";

const $ = (selector, inside = document) => inside.querySelector(selector);

// Copying: of a session at a console, what was typed.
if (navigator.clipboard) {
  for (const pre of document.querySelectorAll("main pre")) {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "copy", textContent: "Copy" });
    const code = $("code", pre);
    const text = code.textContent, typed = text.split("\n").filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.className.includes("language-console") ? typed.join("\n") : text);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    const box = Object.assign(document.createElement("div"), { className: "code" });
    pre.replaceWith(box);
    box.append(pre, button);
  }
}

// Light and dark.
$("#theme").addEventListener("click", () => {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* for this page only */ }
});

// The pages, on a phone.
const menu = $("#menu");
const open = (yes) => { menu.setAttribute("aria-expanded", yes); document.body.classList.toggle("menu", yes); };
menu.addEventListener("click", () => open(menu.getAttribute("aria-expanded") !== "true"));
const nav = $("#nav"), current = $("[aria-current]", nav);
if (current) nav.scrollTop = current.offsetTop - nav.clientHeight / 2;

// Where the reader is on the page.
const places = new Map([...document.querySelectorAll("aside a")].map((a) => [document.getElementById(decodeURIComponent(a.hash.slice(1))), a]));
const seen = new IntersectionObserver(() => {
  let last;
  for (const [heading, a] of places) {
    a.removeAttribute("aria-current");
    if (!last || heading.getBoundingClientRect().top < innerHeight / 3) last = a;
  }
  last?.setAttribute("aria-current", "true");
}, { rootMargin: "0px 0px -60% 0px" });
for (const heading of places.keys()) seen.observe(heading);

// The search: its index is fetched, and made, when it is first opened.
const dialog = $("#search"), input = $("input", dialog), status = $("[role=status]", dialog), list = $("ol", dialog);
let index;
const load = () => index ??= (async () => {
  const [{ default: MiniSearch }, sections] = await Promise.all([import("./vendor/minisearch.js"), fetch("search.json").then((r) => { if (!r.ok) throw new Error(r.statusText); return r.json(); })]);
  const all = new MiniSearch({ idField: "url", fields: ["heading", "page", "text"], storeFields: ["heading", "page", "text"], searchOptions: { boost: { heading: 4, page: 2 }, prefix: true, fuzzy: (term) => term.length > 4 && 0.2, combineWith: "AND" } });
  all.addAll(sections);
  return all;
})();
const ask = () => { dialog.showModal(); input.select(); load().then(show, failed); };
const failed = (e) => { index = undefined; status.textContent = `The index can't be loaded: ${e.message}`; };
const around = (text, terms) => {
  const lower = text.toLowerCase();
  const at = Math.max(0, Math.min(...terms.map((t) => lower.indexOf(t.toLowerCase())).filter((i) => i >= 0).concat(text.length)) - 40);
  const from = at >= text.length - 40 ? 0 : at;
  return (from ? "…" : "") + text.slice(from, from + 160) + (from + 160 < text.length ? "…" : "");
};
const marked = (text, terms) => {
  const out = document.createDocumentFragment();
  const words = terms.map((t) => t.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
  text.split(new RegExp(`(${words})`, "i")).forEach((piece, i) => out.append(i % 2 ? Object.assign(document.createElement("mark"), { textContent: piece }) : piece));
  return out;
};
async function show() {
  const all = await load(), query = input.value.trim();
  const found = query ? all.search(query) : [];
  status.textContent = query ? (found.length ? "" : "Nothing has these words.") : "";
  list.replaceChildren(...found.slice(0, 20).map((f) => {
    const a = Object.assign(document.createElement("a"), { href: f.id });
    const title = document.createElement("strong"), text = document.createElement("span");
    title.append(f.heading === f.page ? f.page : `${f.page} › ${f.heading}`);
    text.append(marked(around(f.text, f.terms), f.terms));
    a.append(title, text);
    a.addEventListener("click", () => dialog.close());
    const li = document.createElement("li");
    li.append(a);
    return li;
  }));
}
$("#find").addEventListener("click", ask);
input.addEventListener("input", () => show().catch(failed));
dialog.addEventListener("click", (e) => { if (e.target === dialog) dialog.close(); });
dialog.addEventListener("keydown", (e) => {
  const links = [...list.querySelectorAll("a")], i = links.indexOf(document.activeElement);
  const to = { ArrowDown: i + 1, ArrowUp: i - 1 }[e.key];
  if (to !== undefined) { (links[to] ?? input).focus(); e.preventDefault(); }
  if (e.key === "Enter" && i < 0) links[0]?.click();
});
document.addEventListener("keydown", (e) => {
  if (dialog.open || e.altKey || e.target.closest("input, textarea, select")) return;
  if (e.key === "/" && !e.ctrlKey && !e.metaKey || e.key === "k" && (e.ctrlKey || e.metaKey)) { ask(); e.preventDefault(); }
  if (e.key === "Escape") open(false);
});

// Colours.
const languages = { go: "go", sh: "bash", bash: "bash", console: "shell", yaml: "yaml", json: "json", python: "python", js: "javascript", nginx: "nginx", caddy: "nginx", ini: "ini", dockerfile: "dockerfile" };
const shown = [...document.querySelectorAll("pre > code[class^=language-]")].map((code) => ({ code, language: languages[code.className.slice("language-".length)] })).filter((x) => x.language);
const needed = new Set(shown.map((x) => x.language));
if (needed.has("shell")) needed.add("bash"); // whose lines it shows
await Promise.all([...needed].map(async (name) => hljs.registerLanguage(name, (await import(`./vendor/languages/${name}.js`)).default)));
for (const { code, language } of shown) code.innerHTML = hljs.highlight(code.textContent, { language }).value;
