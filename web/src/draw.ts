// Where things are drawn in pictures. Pure: what was counted in, places out.
import type { Tree, Turn, UsageRow } from "./api";

/** A turn in the picture of branches. */
export interface Row {
  turn: Turn;
  lane: number;
  /** The row that it follows. */
  parent: number | null;
  isOnPath: boolean;
  names: { name: string; kind: "branch" | "checkpoint" | "head" | "compaction" }[];
}

/** Where each turn is drawn: the first to follow a turn stays in its lane, every other one begins a lane. */
export const layOut = (tree: Tree): Row[] => {
  const index = new Map(tree.turns.map((turn, at) => [turn.n, at]));
  const places = new Map(tree.places.map(({ n, turn }) => [n, turn]));
  const turnOf = (n: number): number => index.get(places.get(n) ?? -1) ?? -1;
  const path = new Set<number>();
  let at = tree.head === null ? -1 : turnOf(tree.head);
  while (at >= 0 && !path.has(at)) {
    path.add(at);
    const parent = (tree.turns[at] as Turn).parent;
    at = parent === null ? -1 : (index.get(parent) ?? -1);
  }
  const taken = new Set<number>();
  let lanes = 0;
  const rows: Row[] = [];
  tree.turns.forEach((turn, here) => {
    const parent = turn.parent === null ? null : (index.get(turn.parent) ?? null);
    const goesOn = parent !== null && !taken.has(parent);
    if (parent !== null && goesOn) taken.add(parent);
    const lane = goesOn ? (rows[parent as number] as Row).lane : lanes++;
    rows.push({ turn, lane, parent, isOnPath: path.has(here), names: [] });
  });
  for (const label of tree.labels) if (label.to !== null) rows[turnOf(label.to)]?.names.push({ name: label.name, kind: label.as });
  for (const n of tree.compactions) rows[turnOf(n)]?.names.push({ name: "compacted", kind: "compaction" });
  if (tree.head !== null) rows[turnOf(tree.head)]?.names.push({ name: "you are here", kind: "head" });
  return rows;
};

/** A day of the chart. */
export interface Bar {
  day: string;
  parts: { name: string; value: number }[];
  total: number;
}

/** So many names have a colour of their own. */
const MOST = 8;

/** Rows by day and name become bars; names beyond the largest few are one. */
export const bars = (rows: UsageRow[], by: "model" | "agent", days: string[], of: (row: UsageRow) => number): { bars: Bar[]; names: string[] } => {
  const sums = new Map<string, number>();
  for (const row of rows) sums.set(row[by] ?? "", (sums.get(row[by] ?? "") ?? 0) + of(row));
  const large = [...sums].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const names = large.slice(0, MOST);
  if (large.length > MOST) names.push("others");
  const made = new Map(days.map((day) => [day, new Map<string, number>()]));
  for (const row of rows) {
    const name = names.includes(row[by] ?? "") ? (row[by] ?? "") : "others";
    const bar = made.get(row.day ?? "");
    bar?.set(name, (bar.get(name) ?? 0) + of(row));
  }
  return {
    names,
    bars: days.map((day) => {
      const parts = names.map((name) => ({ name, value: made.get(day)?.get(name) ?? 0 }));
      return { day, parts, total: parts.reduce((sum, part) => sum + part.value, 0) };
    }),
  };
};
