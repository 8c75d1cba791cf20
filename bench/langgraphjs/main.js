// Runs the workloads with @langchain/langgraph, timed as ../measure does it.
import { Annotation, END, MemorySaver, Send, START, StateGraph } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";

// The numbers of ../measure/workloads.go, with fewer repetitions in a sample:
// it takes long enough.
const loopSteps = 1000, chainNodes = 10, runSteps = 10, fan = 1000, threads = 1000, message = 500, recordSize = 200;
const loops = 1, chains = 50, fans = 1, fewThreads = 50, fewFiles = 10;

const Counter = Annotation.Root({ n: Annotation() });
const count = (s) => ({ n: s.n + 1 });
// Other durabilities go on before a step is stored.
const sync = { durability: "sync" };

function want(what, got, expected) {
  if (got !== expected) throw new Error(`${what}: got ${got}, want ${expected}`);
}

function ring(to, checkpointer) {
  return new StateGraph(Counter)
    .addNode("count", count)
    .addEdge(START, "count")
    .addConditionalEdges("count", (s) => (s.n < to ? "count" : END), ["count", END])
    .compile({ checkpointer });
}

async function invoke(g, expected, config) {
  const s = await g.invoke({ n: 0 }, config);
  want("counted", s.n, expected);
}

const onThread = (i) => ({ ...sync, recursionLimit: runSteps + 10, configurable: { thread_id: String(i) } });

function loop() {
  const g = ring(loopSteps);
  return {
    async do() {
      for (let i = 0; i < loops; i++) await invoke(g, loopSteps, { recursionLimit: loopSteps + 10 });
    },
  };
}

function chain() {
  const b = new StateGraph(Counter);
  for (let i = 0; i < chainNodes; i++) b.addNode(`node${i}`, count).addEdge(i ? `node${i - 1}` : START, `node${i}`);
  const g = b.addEdge(`node${chainNodes - 1}`, END).compile();
  return {
    async do() {
      for (let i = 0; i < chains; i++) await invoke(g, chainNodes);
    },
  };
}

const memory = () => ({ saver: new MemorySaver() });

function onSQLite(dir) {
  const saver = SqliteSaver.fromConnString(path.join(dir, "threads.db"));
  saver.setup(); // WAL
  saver.db.pragma("synchronous=NORMAL");
  return { saver, close: () => saver.db.close(), stored: "threads.db" };
}

const stored = (open, n) => (dir) => {
  const { saver, close, stored } = open(dir);
  const g = ring(runSteps, saver);
  return {
    close,
    stored,
    async do() {
      for (let i = 0; i < n; i++) await invoke(g, runSteps, onThread(i));
    },
  };
};

function commits(dir) {
  const db = new Database(path.join(dir, "commits.db"));
  db.pragma("journal_mode=WAL");
  db.pragma("synchronous=NORMAL");
  db.exec("CREATE TABLE records (thread INTEGER, n INTEGER, data BLOB, PRIMARY KEY (thread, n)) WITHOUT ROWID");
  const insert = db.prepare("INSERT INTO records VALUES (?, ?, ?)");
  const record = Buffer.alloc(recordSize);
  return {
    close: () => db.close(),
    async do() {
      for (let t = 0; t < fewFiles; t++) for (let n = 0; n < runSteps; n++) insert.run(t, n, record);
    },
  };
}

function sends() {
  const add = (a, b) => a + b;
  const g = new StateGraph(Annotation.Root({ sum: Annotation({ reducer: add, default: () => 0 }), n: Annotation() }))
    .addNode("split", () => ({}))
    .addNode("work", ({ task }) => ({ sum: task }))
    .addNode("join", (s) => ({ n: s.sum }))
    .addEdge(START, "split")
    .addConditionalEdges("split", () => Array.from({ length: fan }, (_, i) => new Send("work", { task: i })), ["work"])
    .addEdge("work", "join")
    .addEdge("join", END)
    .compile();
  return {
    async do() {
      for (let i = 0; i < fans; i++) want("sum", (await g.invoke({ n: 0 })).n, (fan * (fan - 1)) / 2);
    },
  };
}

function many() {
  const g = ring(runSteps, new MemorySaver());
  return {
    async do() {
      await Promise.all(Array.from({ length: threads }, (_, i) => invoke(g, runSteps, onThread(i))));
    },
  };
}

// Words of letters drawn at random, always the same; not the same as in Go.
function texts(n) {
  let seed = 1;
  const draw = (n) => (seed = (seed * 48271) % 2147483647) % n;
  return Array.from({ length: n }, () => {
    let s = "";
    while (s.length < message) {
      for (let k = 2 + draw(9); k > 0; k--) s += String.fromCharCode(97 + draw(26));
      s += " ";
    }
    return s.slice(0, message);
  });
}

const turns = (open, n) => (dir) => {
  const say = texts(2 * n);
  const { saver, close, stored } = open(dir);
  const g = new StateGraph(Annotation.Root({ messages: Annotation({ reducer: (a, b) => a.concat(b), default: () => [] }) }))
    .addNode("answer", (s) => ({ messages: [say[s.messages.length]] }))
    .addEdge(START, "answer")
    .addEdge("answer", END)
    .compile({ checkpointer: saver });
  return {
    close,
    stored,
    async do() {
      let s;
      for (let i = 0; i < n; i++) s = await g.invoke({ messages: [say[2 * i]] }, onThread("talk"));
      want("messages", s.messages.length, 2 * n);
    },
  };
};

const workloads = {
  loop: [loop, loopSteps * loops],
  chain: [chain, chains],
  memory: [stored(memory, fewThreads), fewThreads],
  sqlite: [stored(onSQLite, fewFiles), fewFiles],
  commits: [commits, fewFiles],
  sends: [sends, fans],
  many: [many, threads],
  "turns-memory": [turns(memory, 200), 1],
  "turns-memory-400": [turns(memory, 400), 1],
  "turns-sqlite": [turns(onSQLite, 200), 1],
  "turns-sqlite-400": [turns(onSQLite, 400), 1],
};

async function sample(run) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), "bench"));
  try {
    const w = run(dir);
    const start = process.hrtime.bigint(), before = process.cpuUsage();
    await w.do();
    const ns = Number(process.hrtime.bigint() - start), used = process.cpuUsage(before);
    w.close?.();
    let bytes = 0;
    if (w.stored) for (const f of fs.readdirSync(dir)) bytes += fs.statSync(path.join(dir, f)).size;
    return { ns, cpu: (used.user + used.system) * 1000, bytes };
  } finally {
    fs.rmSync(dir, { recursive: true });
  }
}

const { values: flags } = parseArgs({ options: { workload: { type: "string" }, for: { type: "string", default: "500ms" } } });
const budget = parseFloat(flags.for) * 1e6 * (flags.for.endsWith("ms") ? 1 : 1000);
const { version } = createRequire(import.meta.url)("./node_modules/@langchain/langgraph/package.json");
for (const [name, [run, units]] of Object.entries(workloads)) {
  if (flags.workload && flags.workload !== name) continue;
  let took = 0, worked = 0, samples = 0, disk = 0;
  for (let warm = false; took < budget; warm = true) {
    const { ns, cpu, bytes } = await sample(run);
    if (!warm && ns < budget) continue;
    took += ns;
    worked += cpu;
    disk = bytes;
    samples++;
  }
  const result = { peer: "LangGraph.js", version, workload: name, ns: took / (samples * units), cpu: worked / (samples * units), samples };
  if (disk) result.stored = disk / units;
  console.log(JSON.stringify(result));
}
