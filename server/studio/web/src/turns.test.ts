import { expect, test } from "vitest";
import { began, linesOf, slotsOf, stepsOf, upTo, type TraceEvent, type Turn } from "./turns";

function turn(n: number, trace: Omit<TraceEvent, "turn">[], more: Partial<Turn> = {}): Turn {
  return { turn: n, began: { by: "message" }, user: [], understanding_asked: false, commands: [], trace: trace.map((e) => ({ turn: n, ...e })), replies: [], state: "", stack: [], ended: true, ...more };
}
const frame = (flow: string, step: string) => ({ flow_id: flow + "_1", flow, version: "v", state: "active", step, role: "user" as const, waits: true });

test("a turn says who gave which command and what came of it", () => {
  const t = turn(1, [
    { kind: "flow_active", flow: "buy" }, { kind: "command", command: "start_flow", flow: "buy", reason: "user" },
    { kind: "slot_set", flow: "buy", step: "ask", slot: "seats", value: "2", reason: "user" }, { kind: "command", command: "set_slot", slot: "seats", reason: "user" },
    { kind: "command_ignored", command: "set_slot", slot: "card", reason: "not_asked" }, { kind: "step", flow: "buy", step: "ask" },
    { kind: "branch", flow: "buy", step: "size", side: 2 }, { kind: "action", reason: "sell" }, { kind: "error", flow: "buy", step: "sell_1", reason: "no: sold out" },
    { kind: "flow_completed", flow: "buy", reason: "end" }, { kind: "confirm_changed", step: "sure" },
  ], { commands: [{ type: "set_slot", slot: "card", value: "****" }, { type: "set_slot", slot: "seats", value: 2 }], actions: [{ action: "sell", effect: "write", inputs: {}, error: { type: "no", message: "sold out" }, attempts: 3, recorded: true }] });
  expect(linesOf(t)).toEqual([
    { kind: "flow", text: "buy", value: "active", source: undefined },
    { kind: "command", text: "start_flow buy", value: undefined, source: "user", bad: false },
    { kind: "slot", text: "seats", value: "2", source: "user" },
    { kind: "command", text: "set_slot seats", value: "2", source: "user", bad: false },
    { kind: "refused", text: "set_slot card", value: "****", source: "not_asked", bad: true },
    { kind: "step", text: "buy / ask" },
    { kind: "branch", text: "buy / size", value: "case 2" },
    { kind: "action", text: "sell", value: "no: sold out", source: "3 attempts", bad: true },
    { kind: "error", text: "buy / sell_1", source: "no: sold out", bad: true },
    { kind: "flow", text: "buy", value: "completed", source: "end" },
    { kind: "confirm changed", text: "sure", source: undefined },
  ]);
});

test("steps are those since the flow was begun last", () => {
  const turns = [
    turn(1, [{ kind: "step", flow: "buy", step: "a" }, { kind: "flow_cancelled", flow: "buy" }]),
    turn(2, [{ kind: "step", flow: "buy", step: "b" }, { kind: "step", flow: "other", step: "a" }, { kind: "step", flow: "buy", step: "b" }], { stack: [frame("buy", "b")] }),
    turn(3, [{ kind: "flow_completed", flow: "buy" }]),
  ];
  expect([...stepsOf(upTo(turns, 2), "buy", true)]).toEqual([["b", 2]]);
  expect([...stepsOf(upTo(turns, 1), "buy", false)]).toEqual([["a", 1]]);
  expect([...stepsOf(turns, "buy", false)]).toEqual([["b", 2]]); // how it ended
  expect([...stepsOf(turns, "nothing", false)]).toEqual([]);
});

test("slots have their history, those of open flows first", () => {
  const turns = [
    turn(1, [{ kind: "slot_set", flow: "old", slot: "x", value: "1", reason: "user" }, { kind: "slot_set", flow: "old", slot: "session.name", value: "Ann", reason: "action" }]),
    turn(2, [{ kind: "slot_set", flow: "buy", slot: "seats", value: "2", reason: "user" }, { kind: "slot_set", flow: "buy", slot: "seats", value: "2", reason: "user" }]),
    turn(3, [{ kind: "slot_set", flow: "buy", slot: "seats", value: "3", reason: "button" }, { kind: "slot_emptied", flow: "buy", slot: "seats" }, { kind: "slot_set", flow: "buy", slot: "card", value: "****", reason: "user" }], { stack: [frame("buy", "b")] }),
  ];
  expect(slotsOf(turns)).toEqual([
    { flow: "buy", name: "seats", open: true, past: [{ turn: 2, value: "2", source: "user" }, { turn: 3, value: "3", source: "button" }, { turn: 3 }] },
    { flow: "buy", name: "card", open: true, past: [{ turn: 3, value: "****", source: "user" }] },
    { flow: "session", name: "name", open: true, past: [{ turn: 1, value: "Ann", source: "action" }] },
    { flow: "old", name: "x", open: false, past: [{ turn: 1, value: "1", source: "user" }] },
  ]);
  expect(slotsOf([])).toEqual([]);
});

test("what a turn began with", () => {
  expect(["message", "button", "deadline", undefined].map((by) => began(turn(1, [], { began: { by } })))).toEqual([undefined, "a button", "a deadline", undefined]);
  expect(began(turn(1, [], { began: { by: "event", event: { name: "paid" } } }))).toBe("event paid");
});
