// When the tasks of a run ran, beside and after each other.
import { useState } from "react";
import { labelOf } from "./calls";
import type { Bar } from "./history";
import { Button, duration } from "./ui";

const page = 200;

export function Waterfall({ bars }: { bars: Bar[] }) {
  const [shown, show] = useState(page);
  const tools = bars.filter(isTool).length, models = bars.filter((b) => b.call).length - tools;
  const whole = Math.max(...bars.map((b) => b.from + b.took), 0.001);
  return (
    <>
      <ol className="waterfall" aria-label="When the tasks of the last run ran">
        {bars.slice(0, shown).map((b) => (
          <li key={b.key} className={!b.call ? "" : `is-call ${isTool(b) ? "is-tool" : ""} ${failed(b) ? "is-failed" : ""}`} title={`began after ${fine(b.from)}, took ${fine(b.took)}`}>
            <span className="waterfall-name">{b.call ? labelOf(b.call) : b.name} <span className="hint">{b.call ? b.name : b.step !== undefined && `step ${b.step}`}</span></span>
            <span className="waterfall-track" aria-hidden="true"><span className="waterfall-bar" style={{ left: `${(100 * b.from) / whole}%`, width: `${(100 * b.took) / whole}%` }} /></span>
            <span className="hint"><span className="sr">began after {fine(b.from)}, took </span>{fine(b.took)}{failed(b) && <span className="sr">, failed</span>}</span>
          </li>
        ))}
      </ol>
      <p className="hint waterfall-sum">{count(bars.filter((b) => !b.call).length, "task")}{models > 0 && `, ${count(models, "call")} of models`}{tools > 0 && `, ${count(tools, "call")} of tools`} in {fine(whole)}</p>
      {bars.length > shown && <Button kind="quiet" onClick={() => show(shown + page)}>{Math.min(page, bars.length - shown)} more</Button>}
    </>
  );
}

const isTool = (b: Bar) => !!b.call && "tool" in b.call;
const failed = (b: Bar) => !!b.call && ("tool" in b.call ? b.call.failed : b.call.error !== null);
const count = (n: number, noun: string) => `${n} ${noun}${n === 1 ? "" : "s"}`;

// fine is a duration that may be of microseconds.
const fine = (ms: number) => (ms < 1 ? `${Math.round(ms * 1000)} µs` : duration(ms));
