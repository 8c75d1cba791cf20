// How two points of a history differ.
import { changesOf, lineOf, titleOf, type Moment } from "./history";
import { equal } from "./json";

export type Pair = { left?: Moment; right?: Moment; same: boolean };

// sides are the steps that two moments have in common, from the oldest, and those
// that each has alone, side by side.
export function sides(all: Moment[], left: string, right: string): { common: Moment[]; pairs: Pair[] } {
  const a = lineOf(all, left), b = lineOf(all, right);
  let n = 0;
  while (n < a.length && n < b.length && a[n]!.id === b[n]!.id) n++;
  const ours = a.slice(n), theirs = b.slice(n);
  const pairs = aligned(ours.map(titleOf), theirs.map(titleOf)).map(([i, j]): Pair => {
    const l = i === undefined ? undefined : ours[i], r = j === undefined ? undefined : theirs[j];
    return { left: l, right: r, same: !!l && !!r && titleOf(l) === titleOf(r) && equal(changesOf(l), changesOf(r)) };
  });
  return { common: a.slice(0, n), pairs };
}

// aligned puts the steps of two branches beside each other: as many of the same
// name as can be, without changing their order.
function aligned(a: string[], b: string[]): [number?, number?][] {
  const long = b.length + 1;
  const most = new Uint32Array((a.length + 1) * long); // of the rests from i and j
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) most[i * long + j] = a[i] === b[j] ? most[(i + 1) * long + j + 1]! + 1 : Math.max(most[(i + 1) * long + j]!, most[i * long + j + 1]!);
  const out: [number?, number?][] = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) out.push([i++, j++]);
    else if (j >= b.length || (i < a.length && most[(i + 1) * long + j]! >= most[i * long + j + 1]!)) out.push([i++, undefined]);
    else out.push([undefined, j++]);
  }
  // Steps that only one side has share rows with those that only the other has.
  const rows: typeof out = [];
  for (let at = 0; at < out.length;) {
    const [i, j] = out[at]!;
    if (i !== undefined && j !== undefined) { rows.push([i, j]); at++; continue; }
    const ours: number[] = [], theirs: number[] = [];
    for (; at < out.length && (out[at]![0] === undefined || out[at]![1] === undefined); at++) {
      const [l, r] = out[at]!;
      if (l !== undefined) ours.push(l);
      if (r !== undefined) theirs.push(r);
    }
    for (let n = 0; n < Math.max(ours.length, theirs.length); n++) rows.push([ours[n], theirs[n]]);
  }
  return rows;
}
