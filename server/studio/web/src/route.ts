// Where the page is, in the fragment of its address.
import { useSyncExternalStore } from "react";

export type Route =
  | { page: "work"; assistant?: string; thread?: string }
  | { page: "assistants"; assistant?: string }
  | { page: "store" };

export function parse(hash: string): Route {
  let parts: string[];
  try {
    parts = hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    return { page: "work" }; // no address of ours
  }
  const [first, second, third, fourth] = parts;
  switch (first) {
    case "assistants": return { page: "assistants", assistant: second };
    case "store": return { page: "store" };
    case "a": return { page: "work", assistant: second, thread: third === "t" ? fourth : undefined };
    case "t": return { page: "work", thread: second };
    default: return { page: "work" };
  }
}

export function format(r: Route): string {
  switch (r.page) {
    case "assistants": return "#/assistants" + (r.assistant ? "/" + encodeURIComponent(r.assistant) : "");
    case "store": return "#/store";
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
