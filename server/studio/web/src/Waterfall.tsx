// When the tasks of a run ran, beside and after each other.
import { useState } from "react";
import type { Bar } from "./history";
import { Button, duration } from "./ui";

const page = 200;

export function Waterfall({ bars }: { bars: Bar[] }) {
  const [shown, show] = useState(page);
  const whole = Math.max(...bars.map((b) => b.from + b.took), 0.001);
  return (
    <>
      <ol className="waterfall" aria-label="When the tasks of the last run ran">
        {bars.slice(0, shown).map((b) => (
          <li key={b.key} className={b.call ? "is-call" : ""} title={`began after ${fine(b.from)}, took ${fine(b.took)}`}>
            <span className="waterfall-name">{b.call ? b.call.model || "model" : b.name} <span className="hint">{b.call ? b.name : b.step !== undefined && `step ${b.step}`}</span></span>
            <span className="waterfall-track" aria-hidden="true"><span className="waterfall-bar" style={{ left: `${(100 * b.from) / whole}%`, width: `${(100 * b.took) / whole}%` }} /></span>
            <span className="hint"><span className="sr">began after {fine(b.from)}, took </span>{fine(b.took)}</span>
          </li>
        ))}
      </ol>
      <p className="hint waterfall-sum">{count(bars.filter((b) => !b.call).length, "task")}{bars.some((b) => b.call) && ` and ${count(bars.filter((b) => b.call).length, "call")} of models`} in {fine(whole)}</p>
      {bars.length > shown && <Button kind="quiet" onClick={() => show(shown + page)}>{Math.min(page, bars.length - shown)} more</Button>}
    </>
  );
}

const count = (n: number, noun: string) => `${n} ${noun}${n === 1 ? "" : "s"}`;

// fine is a duration that may be of microseconds.
const fine = (ms: number) => (ms < 1 ? `${Math.round(ms * 1000)} µs` : duration(ms));
