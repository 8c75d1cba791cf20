// A conversation.
import { memo, useEffect, useRef, useState } from "react";
import { blocks, textOf, type Message, type ToolCall } from "./messages";
import { isObject, preview, type JsonObject } from "./json";
import type { ToolEvent } from "./session";
import { Tokens } from "./Timeline";
import { Icon, IconButton, JsonView, Members } from "./ui";

const who: Record<Message["type"], string> = { human: "You", ai: "Assistant", tool: "Tool", system: "System" };

export function Chat({ messages, tools, running, stopping, waits, resend }: { messages: Message[]; tools: ToolEvent[]; running: boolean; stopping?: boolean; waits: boolean; resend?: (m: Message, text: string) => void }) {
  const end = useRef<HTMLDivElement>(null);
  const stick = useRef(true);
  const box = useRef<HTMLDivElement>(null);
  const last = messages.at(-1);
  useEffect(() => { if (stick.current) end.current?.scrollIntoView({ block: "end" }); }, [messages.length, last]);
  const results = new Map(messages.flatMap((m) => (m.type === "tool" && m.toolCallId ? [[m.toolCallId, m] as const] : [])));
  const called = new Set(messages.flatMap((m) => m.toolCalls.map((c) => c.id)));
  const shown = messages.filter((m) => !(m.type === "tool" && called.has(m.toolCallId)));
  return (
    <div className="chat" ref={box} tabIndex={0} role="log" aria-label="Conversation" aria-live={running ? "off" : "polite"} onScroll={(e) => { const b = e.currentTarget; stick.current = b.scrollHeight - b.scrollTop - b.clientHeight < 60; }}>
      {shown.map((m) => <Bubble key={m.id} m={m} results={results} tools={tools} waits={waits && m === shown.at(-1)} resend={running ? undefined : resend} />)}
      {running && !last?.streaming && <p className="thinking" role="status"><span className="spin" aria-hidden="true" />{stopping ? "Stopping…" : "Working…"}</p>}
      <div ref={end} />
    </div>
  );
}

const Bubble = memo(function Bubble({ m, results, tools, waits, resend }: { m: Message; results: Map<string, Message>; tools: ToolEvent[]; waits: boolean; resend?: (m: Message, text: string) => void }) {
  const [editing, edit] = useState(false);
  const text = textOf(m.content);
  return (
    <article className={`message from-${m.type} ${m.failed ? "is-failed" : ""} ${m.streaming ? "is-streaming" : ""}`} data-message={m.id}>
      <header>
        <span className="who">{m.name ?? (m.streaming && m.node ? m.node : who[m.type])}</span>
        {m.usage && <span className="hint"><Tokens usage={m.usage} /></span>}
        <span className="message-tools">
          {text && <IconButton icon="copy" label="Copy the text" onClick={() => void navigator.clipboard?.writeText(text)} />}
          {m.type === "human" && resend && !m.id.startsWith("#") && <IconButton icon="edit" label="Edit and send again" onClick={() => edit(true)} />}
        </span>
      </header>
      {editing && resend
        ? <Composer initial={text} label="Edit the message" send={(t) => { edit(false); resend(m, t); }} cancel={() => edit(false)} />
        : blocks(m.content).map((b, i) => <Block key={i} b={b} plain={m.type !== "ai"} />)}
      {m.toolCalls.map((c, i) => <Call key={c.id ?? i} call={c} result={c.id ? results.get(c.id) : undefined} event={tools.findLast((t) => t.id === c.id)} waits={waits} />)}
    </article>
  );
});

function Block({ b, plain }: { b: JsonObject; plain: boolean }) {
  if (typeof b.text === "string") return <Prose text={b.text} plain={plain} />;
  const thought = b.reasoning ?? b.thinking;
  if (typeof thought === "string") return <details className="thought"><summary>Reasoning</summary><Prose text={thought} /></details>;
  const url = isObject(b.image_url) ? b.image_url.url : b.image_url ?? b.url;
  const data = typeof b.data === "string" && typeof b.mime_type === "string" ? `data:${b.mime_type};base64,${b.data}` : undefined;
  const src = data ?? (typeof url === "string" ? url : undefined);
  if (src?.startsWith("data:image/")) return <img className="picture" src={src} alt={typeof b.alt === "string" ? b.alt : "Picture"} />;
  if (src?.startsWith("data:audio/")) return <audio controls src={src} />;
  if (src && /^https?:/.test(src)) return <p><a href={src} target="_blank" rel="noreferrer">{String(b.type)}: {preview(src)}</a></p>;
  if (b.type === "tool_use" || b.type === "tool_call") return null; // shown as calls
  return <JsonView value={b} open={0} />;
}

// Prose shows text with its fenced code set apart, and unless it is plain with what
// models mark in Markdown.
function Prose({ text, plain }: { text: string; plain?: boolean }) {
  return <>{text.split(/^(```[^\n]*\n[\s\S]*?(?:^```\s*$|$(?![\s\S])))/m).map((part, i) => {
    if (!part) return null;
    const code = /^```[^\n]*\n([\s\S]*?)(?:```\s*)?$/.exec(part);
    return code && part.startsWith("```") ? <pre className="code-block" tabIndex={0} key={i}>{code[1]}</pre> : <p className="prose" key={i}>{plain ? part.trim() : marked(part.trim())}</p>;
  })}</>;
}

// marked shows headings, bold words and code of Markdown as such; all else stands
// as it was written.
function marked(text: string) {
  return text.split(/(^#{1,6} [^\n]+|\*\*[^*\n]+\*\*|`[^`\n]+`)/m).map((part, i) => {
    if (i % 2 === 0) return part;
    if (part.startsWith("`")) return <code key={i}>{part.slice(1, -1)}</code>;
    return <strong key={i}>{part.startsWith("#") ? part.replace(/^#+ /, "") : part.slice(2, -2)}</strong>;
  });
}

function Call({ call, result, event, waits }: { call: ToolCall; result?: Message; event?: ToolEvent; waits: boolean }) {
  const status = result ? (result.failed ? "failed" : "done") : event?.status ?? (waits ? "waits" : "called");
  return (
    <details className={`call is-${status}`}>
      <summary><Icon name="tool" size={14} /><strong>{call.name || "…"}</strong><span className="hint">{preview(call.args, 60)}</span><span className="call-status">{status}</span></summary>
      <h4>Arguments</h4><Members value={call.args} />
      {(result ?? event?.output !== undefined) && <><h4>Result</h4>{result ? <Prose text={textOf(result.content)} /> : <JsonView value={event!.output} open={1} />}</>}
    </details>
  );
}

// A Composer takes a text. Enter sends it; Shift and Enter begin a new line. Send
// and Stop are in one place: of a double click the first alone counts, so that it
// neither stops what it began nor sends what was being written when it stopped. Nor
// does a key that is held. Where send reports that nothing was sent, the text is
// there again.
export function Composer({ send, cancel, initial = "", label, disabled, running, stopping, stop }: { send: (text: string) => Promise<boolean> | void; cancel?: () => void; initial?: string; label: string; disabled?: boolean; running?: boolean; stopping?: boolean; stop?: () => void }) {
  const [text, set] = useState(initial);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    const a = area.current;
    if (!a) return;
    a.style.height = "auto";
    a.style.height = `${Math.min(a.scrollHeight + 2, 220)}px`;
  }, [text]);
  const further = (e: React.MouseEvent) => e.detail > 1;
  const held = (e: React.KeyboardEvent) => { if (e.repeat && e.key === "Enter") e.preventDefault(); };
  const go = () => {
    if (!text.trim() || disabled || running) return;
    void send(text)?.then((sent) => { if (!sent) set((now) => now || text); });
    set("");
  };
  return (
    <form className="composer" onSubmit={(e) => { e.preventDefault(); go(); }}>
      <textarea ref={area} rows={1} aria-label={label} placeholder={label} value={text} onChange={(e) => set(e.target.value)}
        onKeyDown={(e) => { if (e.key === "Enter" && !e.shiftKey && !e.nativeEvent.isComposing) { e.preventDefault(); go(); } if (e.key === "Escape") cancel?.(); }} />
      {cancel && <IconButton icon="x" label="Don't change it" onClick={cancel} />}
      {running && stop ? <IconButton icon="stop" label={stopping ? "Stopping the run" : "Stop the run"} disabled={stopping} onKeyDown={held} onClick={(e) => { if (!further(e)) stop(); }} /> : <IconButton icon="send" label="Send" type="submit" disabled={disabled || !text.trim()} onKeyDown={held} onClick={(e) => { if (further(e)) e.preventDefault(); }} />}
    </form>
  );
}
