// The server, by LangGraph's SDK.
import type { Call, ToolCall } from "./calls";
import { Client, type Assistant, type Checkpoint, type Thread, type ThreadState } from "@langchain/langgraph-sdk";
import type { Json, JsonObject } from "./json";
import type { Replay, ReplayOptions } from "./replays";
import type { Figures } from "./runs";
import type { Schema } from "./schema";
import type { Turn } from "./turns";

export type { Assistant, Checkpoint };
export type State = ThreadState<JsonObject>;
export type Interrupt = { id: string; key?: string; value: Json; schema?: Schema };
export type ThreadInfo = Thread<JsonObject> & { title?: string; due_at?: string };

// apiUrl is where the API is: what the query parameter names, else the place
// above the page that the page was told by who serves it, else its origin.
export const apiUrl = ((): string => {
  const named = new URLSearchParams(location.search).get("apiUrl");
  if (named) return new URL(named, location.href).href.replace(/\/$/, "");
  const above = document.querySelector<HTMLMetaElement>('meta[name="superstep-api"]')?.content ?? "/";
  return new URL(above, document.baseURI).href.replace(/\/$/, "");
})();

// key is the API key that the person has given, for this visit alone.
const keyName = `superstep.key ${apiUrl}`;
const key = ((): string | null => {
  try { return sessionStorage.getItem(keyName); } catch { return null; } // storage may be forbidden
})();

// signIn takes an API key and begins anew with it.
export function signIn(given: string) {
  try { sessionStorage.setItem(keyName, given); } catch { /* it cannot be kept */ }
  location.reload();
}

export const keyGiven = key !== null;
const headers: Record<string, string> = key === null ? {} : { "x-api-key": key };

// fetching hides from the SDK where a stream may be taken up again, so that a
// connection that breaks is known here at once: sessions take it up themselves.
const fetching: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return response;
  const kept = new Headers(response.headers);
  kept.delete("location");
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers: kept });
};

export const client = new Client({ apiUrl, apiKey: key, callerOptions: { maxRetries: 1, fetch: fetching } });

// joinThread tells when runs begin and end on a thread, whoever started them, and
// when its state is edited. It calls opened once the server listens.
export function joinThread(thread: string, opened: () => void, signal: AbortSignal) {
  const listening: typeof fetch = async (input, init) => {
    const response = await fetching(input, init);
    if (response.ok) opened();
    return response;
  };
  return new Client({ apiUrl, apiKey: key, callerOptions: { maxRetries: 0, fetch: listening } }).threads.joinStream(thread, { streamMode: ["lifecycle", "state_update"], signal });
}

// ask asks the server for what the SDK has no parameter for.
export async function ask<T>(path: string, body?: object, signal?: AbortSignal, method?: string): Promise<T> {
  return (await asked(path, body, signal, method)).json() as Promise<T>;
}

async function asked(path: string, body?: object | Blob, signal?: AbortSignal, method = body ? "POST" : "GET"): Promise<Response> {
  const raw = body instanceof Blob;
  const response = await fetch(apiUrl + path, { method, headers: body ? { ...headers, "content-type": raw ? "application/x-ndjson" : "application/json" } : headers, body: body && (raw ? body : JSON.stringify(body)), signal });
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
  return response;
}

// away reports whether a request failed because the server could not be reached.
export function away(e: unknown): boolean {
  return e instanceof TypeError || /failed to fetch|unable to connect|network|load failed|HTTP 50[234]/i.test(String(e));
}

// refused reports whether the server wants to know who asks.
export function refused(e: unknown): boolean {
  return (e as { status?: number } | undefined)?.status === 401 || /HTTP 401/.test(String(e));
}

export type Point = { x: number; y: number };
export type Box = {
  id: string; label?: string; description?: string; kind?: string; x: number; y: number; w: number; h: number;
  path?: string[]; parent: number; expanded?: boolean; lines: string[]; notes?: string[]; pause_before?: boolean; pause_after?: boolean;
};
export type Route = { from: string; to: string; kind?: string; label?: string; from_node: number; to_node: number; path: string; label_rect?: { x: number; y: number; w: number; h: number }; label_lines?: string[] };
export type Layout = { width: number; height: number; nodes: Box[]; edges: Route[] };
export type Drawing = { nodes: { id: string; data?: { name?: string; description?: string } | string }[]; edges: { source: string; target: string; conditional?: boolean; data?: string }[]; layout?: Layout };

// drawing returns a graph with the places of its nodes, if the server gives any.
// The SDK has no parameters for places and for which subgraphs are open.
export async function drawing(assistant: string, open: string[], signal: AbortSignal): Promise<Drawing> {
  const query = new URLSearchParams({ layout: "TB", open: JSON.stringify(open) });
  return ask<Drawing>(`/assistants/${encodeURIComponent(assistant)}/graph?${query}`, undefined, signal);
}

// dialogueOf returns the graph of the assistant in YAML that the server speaks for; other servers have none.
export const dialogueOf = async (signal: AbortSignal) => (await ask<{ dialogue?: string }>("/info", undefined, signal)).dialogue;

export type FlowInfo = { name: string; description: string; internal: boolean; version: string };
export type Flows = { name: string; languages: string[]; flows: FlowInfo[]; graph: Drawing };

// flowsOf lists the flows of a dialogue and draws the calls between them.
export const flowsOf = (assistant: string, signal: AbortSignal) => ask<Flows>(`/assistants/${encodeURIComponent(assistant)}/flows?layout=LR`, undefined, signal);

// flowOf draws a flow, as it was at a version if one is given.
export const flowOf = (assistant: string, name: string, version: string | undefined, signal: AbortSignal) =>
  ask<Drawing>(`/assistants/${encodeURIComponent(assistant)}/flows/${encodeURIComponent(name)}?layout=TB${version ? "&version=" + encodeURIComponent(version) : ""}`, undefined, signal);

// turnsOf says why a conversation went as it did: the newest turns, or those before one.
export const turnsOf = (thread: string, before: number | undefined, signal: AbortSignal) =>
  ask<{ turns: Turn[]; more: boolean }>(`/threads/${thread}/turns?limit=50${before ? "&before=" + before : ""}`, undefined, signal);

// callsOf lists the newest calls of models on a thread, or those before one.
export const callsOf = (thread: string, limit: number, before: string | undefined, signal?: AbortSignal) =>
  ask<Call[]>(`/threads/${thread}/model_calls?limit=${limit}${before ? "&before=" + before : ""}`, undefined, signal);

// toolsOf lists the newest calls of tools on a thread.
export const toolsOf = (thread: string, limit: number, signal?: AbortSignal) => ask<ToolCall[]>(`/threads/${thread}/tool_calls?limit=${limit}`, undefined, signal);

// recordingOf is a thread as a recording, as text.
export async function recordingOf(thread: string): Promise<string> {
  return (await asked(`/threads/${thread}/recording`)).text();
}

// importThread makes a thread of a recording; replayThread runs a thread's graph against what was recorded of it.
export const importThread = async (recording: Blob) => (await asked("/threads/import", recording)).json() as Promise<ThreadInfo>;
export const replayThread = (thread: string, options: ReplayOptions, signal: AbortSignal) => ask<Replay>(`/threads/${thread}/replay`, options, signal);

// asksAgain reports whether the server asks models again; askAgain has it do so, and nothing is recorded of it.
export const asksAgain = async (signal: AbortSignal) => (await ask<{ flags?: { ask_again?: boolean } }>("/info", undefined, signal)).flags?.ask_again === true;
export const askAgain = (thread: string, id: string, request: Json, signal: AbortSignal) => ask<Call>(`/threads/${thread}/model_calls/${id}`, { request }, signal);

export const callOf = (thread: string, id: string, signal: AbortSignal) => ask<Call>(`/threads/${thread}/model_calls/${id}`, undefined, signal);

// Feedback is what somebody thinks of a thread, or of a run of it.
export type Feedback = { feedback_id: string; run_id: string | null; key: string; score: number | null; comment: string; user_id: string | null; created_at: string };

export const feedbackOn = (thread: string, signal: AbortSignal) => ask<Feedback[]>(`/threads/${thread}/feedback?limit=1000`, undefined, signal);
export const giveFeedback = (thread: string, f: { key?: string; score?: number; comment: string; run_id?: string }) => ask<Feedback>(`/threads/${thread}/feedback`, f);

export async function removeFeedback(thread: string, id: string) {
  const response = await fetch(`${apiUrl}/threads/${thread}/feedback/${id}`, { method: "DELETE", headers });
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
}

// testOf returns a conversation as a test.
export async function testOf(thread: string): Promise<string> {
  const response = await fetch(`${apiUrl}/threads/${thread}/test`, { headers });
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
  return response.text();
}

// searchThreads asks for parts of threads: whole conversations are too much for a list.
export const searchThreads = (body: object, signal?: AbortSignal) => ask<ThreadInfo[]>("/threads/search", body, signal);

// A Run is a run of any thread, as a search finds it.
export type Run = {
  run_id: string; thread_id: string; assistant_id: string; graph_id: string | null; user_id: string | null; status: string; created_at: string;
  run_started_at: string | null; run_ended_at: string | null; error: { error: string; message: string } | null;
  usage: Call["usage"]; cost: number | null; // null: not known
};
const runMembers = ["run_id", "thread_id", "assistant_id", "graph_id", "user_id", "status", "created_at", "run_started_at", "run_ended_at", "error", "usage", "cost"];

// searchRuns finds runs of all threads, newest first; figuresOf counts them.
export const searchRuns = (body: object, signal?: AbortSignal) => ask<Run[]>("/runs/search", { select: runMembers, ...body }, signal);
export const figuresOf = (body: object, signal: AbortSignal) => ask<Figures[]>("/runs/figures", body, signal);

// historyIn is the history of a subgraph, newest first.
export const historyIn = (thread: string, ns: string, signal: AbortSignal) => ask<State[]>(`/threads/${thread}/history`, { limit: 100, checkpoint: { checkpoint_ns: ns } }, signal);

// A Cron starts runs at times.
export type Cron = {
  cron_id: string; assistant_id: string; thread_id: string | null; schedule: string; timezone: string | null; enabled: boolean; next_run_date: string | null; end_time: string | null;
  on_run_completed: string; created_at: string; updated_at: string; metadata: JsonObject | null; payload: JsonObject;
};

export type Schemas = { input: Schema; state: Schema; config: Schema; context: Schema };

export async function schemas(assistant: string): Promise<Schemas> {
  const s = await client.assistants.getSchemas(assistant);
  const of = (v: unknown) => (v ?? {}) as Schema;
  return { input: of(s.input_schema), state: of(s.state_schema ?? s.output_schema), config: of(s.config_schema), context: of((s as { context_schema?: unknown }).context_schema) };
}

// words says what went wrong, for people.
export function words(e: unknown): string {
  if (/failed to fetch|unable to connect|networkerror|network error|load failed/i.test(String(e))) return `The server at ${apiUrl} cannot be reached.`;
  const text = e instanceof Error ? e.message : String(e);
  return text.replace(/^HTTP (\d+): \s*/, (_, code: string) => (Number(code) >= 500 ? `The server failed (${code}): ` : "")).trim() || "Something went wrong.";
}

export function assistantOf(t: { metadata?: unknown }): string | undefined {
  const m = t.metadata as Record<string, unknown> | null | undefined;
  return (m?.assistant_id ?? m?.graph_id) as string | undefined;
}

/** The assistants that one may use: searches show the graphs' own to who may see only some, if they are asked for. */
export async function findAssistants() {
  const paging = { limit: 200, sortBy: "created_at", sortOrder: "asc" } as const;
  const [own, all] = await Promise.all([client.assistants.search({ ...paging, metadata: { created_by: "system" } }), client.assistants.search(paging)]);
  return [...own, ...all.filter((a) => !own.some((o) => o.assistant_id === a.assistant_id))];
}
