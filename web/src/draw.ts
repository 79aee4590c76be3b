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

/**
 * The lane of each row: the first to follow a turn stays in its lane, every other one takes the first lane that is free from the turn that it follows
 * to the last row of its own, and is free again behind that.
 */
const lanesOf = (parents: readonly (number | null)[]): number[] => {
  const runs: { from: number; to: number; lane: number }[] = [];
  const runOf: number[] = [];
  const taken = new Set<number>();
  parents.forEach((parent, here) => {
    const goesOn = parent !== null && !taken.has(parent);
    if (goesOn) taken.add(parent);
    const run = goesOn ? (runOf[parent] as number) : runs.push({ from: parent ?? here, to: here, lane: 0 }) - 1;
    (runs[run] as { to: number }).to = here;
    runOf.push(run);
  });
  const lanes: { from: number; to: number }[][] = [];
  for (const run of runs) {
    const isFree = (lane: { from: number; to: number }[]) => lane.every(({ from, to }) => to <= run.from || run.to <= from);
    const at = lanes.findIndex(isFree);
    run.lane = at < 0 ? lanes.push([]) - 1 : at;
    lanes[run.lane]?.push(run);
  }
  return runOf.map((run) => (runs[run] as { lane: number }).lane);
};

/** Where each turn is drawn. */
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
  const parents = tree.turns.map(({ parent }) => (parent === null ? null : (index.get(parent) ?? null)));
  const lanes = lanesOf(parents);
  const rows: Row[] = tree.turns.map((turn, here) => ({ turn, lane: lanes[here] ?? 0, parent: parents[here] ?? null, isOnPath: path.has(here), names: [] }));
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

/** The least round number that is not below a value: where a scale ends. */
export const roof = (value: number): number => {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 4, 5, 10].find((times) => times * unit >= value * (1 - 1e-9)) ?? 10) * unit;
};

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
