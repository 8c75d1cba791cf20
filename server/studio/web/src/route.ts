// Where the page is, in the fragment of its address.
import { useSyncExternalStore } from "react";
import { filterOf, type RunFilter } from "./runs";

export type Route =
  | { page: "work"; assistant?: string; thread?: string }
  | { page: "assistants"; assistant?: string }
  | { page: "compare"; assistant?: string; thread: string; left?: string; right?: string }
  | { page: "crons"; cron?: string }
  | { page: "runs"; filter: RunFilter }
  | { page: "store" }
  | { page: "tests"; set?: string; shown: string[] }; // of evaluations

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  let parts: string[];
  try {
    parts = path.split("/").map(decodeURIComponent);
  } catch {
    return { page: "work" }; // no address of ours
  }
  const [first, second, third, fourth] = parts;
  const at = parts.indexOf("compare");
  const thread = first === "t" ? second : first === "a" && third === "t" ? fourth : undefined;
  if (thread && at === (first === "t" ? 2 : 4)) return { page: "compare", assistant: first === "a" ? second : undefined, thread, left: parts[at + 1] || undefined, right: parts[at + 2] || undefined };
  switch (first) {
    case "assistants": return { page: "assistants", assistant: second };
    case "store": return { page: "store" };
    case "crons": return { page: "crons", cron: second };
    case "tests": return { page: "tests", set: second || undefined, shown: third?.split(",").filter(Boolean) ?? [] };
    case "runs": return { page: "runs", filter: filterOf(new URLSearchParams(query)) };
    case "a": return { page: "work", assistant: second, thread: third === "t" ? fourth : undefined };
    case "t": return { page: "work", thread: second };
    default: return { page: "work" };
  }
}

export function format(r: Route): string {
  switch (r.page) {
    case "assistants": return "#/assistants" + (r.assistant ? "/" + encodeURIComponent(r.assistant) : "");
    case "store": return "#/store";
    case "tests": return "#/tests" + (r.set ? "/" + encodeURIComponent(r.set) + (r.shown.length ? "/" + r.shown.map(encodeURIComponent).join(",") : "") : "");
    case "crons": return "#/crons" + (r.cron ? "/" + encodeURIComponent(r.cron) : "");
    case "runs": {
      const query = new URLSearchParams(r.filter).toString();
      return "#/runs" + (query && "?" + query);
    }
    case "compare": return format({ page: "work", assistant: r.assistant, thread: r.thread }) + "/compare" + [r.left, r.right].map((c) => "/" + encodeURIComponent(c ?? "")).join("");
    case "work": {
      if (!r.assistant) return r.thread ? "#/t/" + encodeURIComponent(r.thread) : "#/";
      return "#/a/" + encodeURIComponent(r.assistant) + (r.thread ? "/t/" + encodeURIComponent(r.thread) : "");
    }
  }
}

export function go(r: Route, replace = false) {
  if (replace) history.replaceState(null, "", location.pathname + location.search + format(r));
  else location.hash = format(r);
  if (replace) dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useRoute(): Route {
  const hash = useSyncExternalStore((f) => { addEventListener("hashchange", f); return () => removeEventListener("hashchange", f); }, () => location.hash);
  return parse(hash);
}
