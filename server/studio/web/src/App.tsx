// The page.
import { lazy, Suspense, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { apiUrl, assistantOf, dialogueOf, findAssistants, keyGiven, refused, signIn, words } from "./api";
import { format, go, useRoute } from "./route";
import { Session } from "./session";
import { Threads } from "./Threads";
import { Button, Dialog, Empty, Icon, IconButton, Problem, Spinner, useAsync } from "./ui";
import { Workbench, type Pane } from "./Workbench";

const Assistants = lazy(() => import("./Assistants"));
const Compare = lazy(() => import("./Compare"));
const Crons = lazy(() => import("./Crons"));
const Runs = lazy(() => import("./Runs"));
const Store = lazy(() => import("./Store"));
const Tests = lazy(() => import("./Tests"));

type Theme = "light" | "dark" | "auto";
const darkQuery = matchMedia("(prefers-color-scheme: dark)");

function remembered(key: string): string | null {
  try { return localStorage.getItem("superstep." + key); } catch { return null; } // storage may be forbidden
}
function remember(key: string, value: string) {
  try { localStorage.setItem("superstep." + key, value); } catch { /* it holds for this visit then */ }
}

function useTheme(): [dark: boolean, toggle: () => void] {
  const [theme, set] = useState<Theme>(() => (remembered("theme") as Theme | null) ?? "auto");
  const system = useSyncExternalStore((f) => { darkQuery.addEventListener("change", f); return () => darkQuery.removeEventListener("change", f); }, () => darkQuery.matches);
  const dark = theme === "auto" ? system : theme === "dark";
  useEffect(() => { document.documentElement.dataset.theme = dark ? "dark" : "light"; }, [dark]);
  return [dark, () => { const next = dark ? "light" : "dark"; set(next); remember("theme", next); }];
}

const shortcuts: [keys: string, what: string][] = [
  ["n", "New thread"], ["/", "Search threads"], ["1 – 4", "Run, timeline, state, events"], ["t", "Turns of a dialogue"], ["d", "Light or dark"], ["Alt ↑ ↓", "Thread before or after"], ["Enter", "Send a message"], ["Esc", "Close"], ["?", "This list"],
];

export function App() {
  const route = useRoute();
  const [dark, toggleTheme] = useTheme();
  const [help, setHelp] = useState(false);
  const [keys, setKeys] = useState(() => remembered("keys") !== "off");
  const [turn, setTurn] = useState(0);
  const [pane, setPane] = useState<Pane>("run");
  const [phone, setPhone] = useState<"threads" | "graph" | "side">("side");
  const search = useRef<HTMLInputElement>(null);
  const session = useMemo(() => new Session(), []);
  useEffect(() => { session.changed = () => setTurn((n) => n + 1); }, [session]);
  const { data: assistants, error, loading, reload } = useAsync(findAssistants, []);
  const { data: dialogue } = useAsync((signal) => dialogueOf(signal).catch(() => undefined), []);
  const onThread = route.page === "work" || route.page === "compare";
  const thread = onThread ? route.thread : undefined;
  useEffect(() => { if (onThread) void session.open(thread); }, [session, onThread, thread]);
  const snap = useSyncExternalStore(session.subscribe, session.get);
  const wanted = (onThread ? route.assistant : undefined) ?? (snap.thread && assistantOf(snap.thread)) ?? remembered("assistant");
  const assistant = assistants?.find((a) => a.assistant_id === wanted) ?? assistants?.find((a) => a.graph_id === wanted) ?? assistants?.[0];
  useEffect(() => { if (assistant) remember("assistant", assistant.assistant_id); }, [assistant]);
  const fresh = () => { go({ page: "work", assistant: assistant?.assistant_id }); void session.open(undefined); setPane("run"); setPhone("side"); };
  useEffect(() => { if (thread) setPhone("side"); }, [thread]);

  useEffect(() => {
    const press = (e: KeyboardEvent) => {
      const at = e.target as HTMLElement;
      if (!keys || e.ctrlKey || e.metaKey || at.closest("input, textarea, select, [contenteditable], dialog")) return;
      if (e.altKey) {
        if (e.key !== "ArrowUp" && e.key !== "ArrowDown") return;
        const links = [...document.querySelectorAll<HTMLAnchorElement>(".thread-list a")];
        const i = links.findIndex((l) => l.ariaCurrent === "page" || l.getAttribute("aria-current") === "page");
        links[e.key === "ArrowDown" ? i + 1 : Math.max(0, i - 1)]?.click();
        e.preventDefault();
        return;
      }
      const panes: Pane[] = ["run", "timeline", "state", "events"];
      const known: Record<string, () => void> = {
        n: fresh, d: toggleTheme, "?": () => setHelp(true),
        "/": () => { setPhone("threads"); requestAnimationFrame(() => search.current?.focus()); },
        t: () => { setPane("turns"); setPhone("side"); },
        ...Object.fromEntries(panes.map((p, i) => [String(i + 1), () => { setPane(p); setPhone("side"); }])),
      };
      const f = known[e.key];
      if (!f) return;
      e.preventDefault();
      f();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });

  const server = apiUrl === location.origin ? "" : apiUrl;
  return (
    <div className={`app page-${route.page} phone-${phone}`}>
      <a className="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the content</a>
      <header className="top">
        <a className="brand" aria-label="Superstep" href={format({ page: "work" })}><img src="./icon.svg" alt="" width="24" height="24" /><span>Superstep</span></a>
        <nav aria-label="Pages">
          <a href={format({ page: "work", assistant: assistant?.assistant_id, thread: snap.threadId })} aria-current={onThread ? "page" : undefined}>Threads</a>
          <a href={format({ page: "runs", filter: {} })} aria-current={route.page === "runs" ? "page" : undefined}>Runs</a>
          <a href={format({ page: "tests", shown: [] })} aria-current={route.page === "tests" ? "page" : undefined}>Tests</a>
          <a href={format({ page: "assistants" })} aria-current={route.page === "assistants" ? "page" : undefined}>Assistants</a>
          <a href={format({ page: "crons" })} aria-current={route.page === "crons" ? "page" : undefined}>Crons</a>
          <a href={format({ page: "store" })} aria-current={route.page === "store" ? "page" : undefined}>Store</a>
        </nav>
        {server && <span className="hint server" title="The server">{server}</span>}
        <span className="grow" />
        <IconButton icon={dark ? "sun" : "moon"} label={dark ? "Light mode" : "Dark mode"} onClick={toggleTheme} />
        <IconButton icon="help" label="Keys" data-desk onClick={() => setHelp(true)} />
      </header>
      <main id="main" tabIndex={-1}>
        {error !== undefined && !assistants && refused(error) && <SignIn />}
        {error !== undefined && !assistants && !refused(error) && <div className="center"><Problem text={words(error)} retry={reload} /></div>}
        {!assistants && loading && <div className="center"><Spinner label="Loading assistants" /></div>}
        {assistants?.length === 0 && <Empty title="No graphs"><p>This server serves no graphs.</p></Empty>}
        {assistants && route.page === "work" && assistant && (
          <>
            <section className="pane pane-threads" aria-label="Threads">
              <Threads assistants={assistants} current={snap.threadId} turn={turn} search={search} fresh={fresh} deleted={(id) => { if (id === snap.threadId) fresh(); }} />
            </section>
            <Workbench session={session} assistant={assistant} assistants={assistants} dialogue={dialogue} dark={dark} pane={pane} setPane={(p) => { setPane(p); setPhone("side"); }} />
            <nav className="phone-bar" aria-label="Views">
              {([["threads", "Threads", "search"], ["graph", "Graph", "fork"], ["side", "Run", "play"]] as const).map(([p, l, i]) => (
                <button type="button" key={p} aria-pressed={phone === p} onClick={() => setPhone(p)}><Icon name={i} />{l}</button>
              ))}
            </nav>
          </>
        )}
        {assistants && route.page !== "work" && (
          <Suspense fallback={<div className="center"><Spinner /></div>}>
            {route.page === "compare" ? <Compare key={route.thread} session={session} assistant={route.assistant} thread={route.thread} left={route.left} right={route.right} />
              : route.page === "runs" ? <Runs assistants={assistants} filter={route.filter} />
              : route.page === "tests" ? <Tests assistants={assistants} set={route.set} shown={route.shown} />
              : route.page === "crons" ? <Crons assistants={assistants} chosen={route.cron} />
              : route.page === "assistants" ? <Assistants assistants={assistants} chosen={route.assistant} reload={reload} /> : <Store />}
          </Suspense>
        )}
      </main>
      {help && (
        <Dialog title="Keys" close={() => setHelp(false)}>
          <dl className="keys">{shortcuts.map(([k, what]) => <div key={k}><dt><kbd>{k}</kbd></dt><dd>{what}</dd></div>)}</dl>
          <label className="check"><input type="checkbox" checked={keys} onChange={(e) => { setKeys(e.target.checked); remember("keys", e.target.checked ? "on" : "off"); }} /> Keys are on</label>
          <div className="actions"><Button onClick={() => setHelp(false)}>Close</Button></div>
        </Dialog>
      )}
    </div>
  );
}

// SignIn asks for an API key.
function SignIn() {
  const [given, set] = useState("");
  return (
    <form className="center sign-in" onSubmit={(e) => { e.preventDefault(); if (given.trim()) signIn(given.trim()); }}>
      <p role={keyGiven ? "alert" : undefined}>{keyGiven ? "The server does not take that key." : "This server asks for an API key."}</p>
      <label>API key <input type="password" autoComplete="off" autoFocus value={given} onChange={(e) => set(e.target.value)} /></label>
      <Button kind="primary" type="submit" disabled={!given.trim()}>Sign in</Button>
    </form>
  );
}
