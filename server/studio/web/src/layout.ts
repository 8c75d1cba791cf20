// Places for the nodes of a graph from a server that gives none: layers from top
// to bottom, edges straight. Subgraphs are shown as they are drawn, without a frame.
import type { Box, Drawing, Layout, Route } from "./api";

const height = 40, gapX = 32, gapY = 56, margin = 20;

export function layered(d: Drawing): Layout {
  const index = new Map(d.nodes.map((n, i) => [n.id, i]));
  const edges = d.edges.flatMap((e) => {
    const from = index.get(e.source), to = index.get(e.target);
    return from === undefined || to === undefined ? [] : [{ ...e, from, to }];
  });
  const out = d.nodes.map((_, i) => edges.filter((e) => e.from === i));
  // Edges back to a node that is still being visited don't count.
  const state = d.nodes.map(() => 0);
  const order: number[] = [];
  const back = new Set<(typeof edges)[number]>();
  const visit = (i: number): void => {
    state[i] = 1;
    for (const e of out[i]!) {
      if (state[e.to] === 1) back.add(e);
      else if (state[e.to] === 0) visit(e.to);
    }
    state[i] = 2;
    order.push(i);
  };
  d.nodes.forEach((_, i) => { if (state[i] === 0) visit(i); });
  const rank = d.nodes.map(() => 0);
  for (const i of order.reverse()) for (const e of out[i]!) if (!back.has(e)) rank[e.to] = Math.max(rank[e.to]!, rank[i]! + 1);
  const last = Math.max(0, ...rank);
  d.nodes.forEach((n, i) => { if (n.id === "__end__") rank[i] = Math.max(last, rank[i]!); });

  const name = (i: number) => {
    const n = d.nodes[i]!;
    const given = typeof n.data === "string" ? n.data : n.data?.name;
    return n.id === "__start__" ? "start" : n.id === "__end__" ? "end" : given || n.id;
  };
  const widths = d.nodes.map((_, i) => Math.max(64, name(i).length * 8 + 28));
  const rows = Array.from({ length: last + 1 }, (_, r) => d.nodes.flatMap((_, i) => (rank[i] === r ? [i] : [])));
  const rowWidth = (row: number[]) => row.reduce((w, i) => w + widths[i]! + gapX, -gapX);
  const width = Math.max(0, ...rows.map(rowWidth)) + 2 * margin;
  const nodes: Box[] = d.nodes.map((n) => ({ id: n.id, x: 0, y: 0, w: 0, h: height, parent: -1, lines: [] }));
  rows.forEach((row, r) => {
    let x = (width - rowWidth(row)) / 2;
    for (const i of row) {
      const id = d.nodes[i]!.id, data = d.nodes[i]!.data;
      nodes[i] = {
        id, x, y: margin + r * (height + gapY), w: widths[i]!, h: height, parent: -1, lines: [name(i)],
        kind: id === "__start__" ? "start" : id === "__end__" ? "end" : undefined, description: typeof data === "object" ? data.description : undefined,
      };
      x += widths[i]! + gapX;
    }
  });
  const routes: Route[] = edges.map((e) => {
    const a = nodes[e.from]!, b = nodes[e.to]!;
    const x1 = a.x + a.w / 2, x2 = b.x + b.w / 2, y1 = a.y + a.h, y2 = b.y;
    const side = Math.max(a.x + a.w, b.x + b.w) + 24;
    const path = e.from === e.to || back.has(e)
      ? `M${a.x + a.w} ${a.y + a.h / 2}C${side} ${a.y + a.h / 2} ${side} ${b.y + b.h / 2} ${b.x + b.w} ${b.y + b.h / 2}`
      : `M${x1} ${y1}C${x1} ${(y1 + y2) / 2} ${x2} ${(y1 + y2) / 2} ${x2} ${y2}`;
    return { from: e.source, to: e.target, kind: e.conditional ? "conditional" : undefined, label: e.data, from_node: e.from, to_node: e.to, path };
  });
  return { width, height: margin * 2 + rows.length * (height + gapY) - gapY, nodes, edges: routes };
}
