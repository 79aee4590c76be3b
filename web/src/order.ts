// Which records of a conversation are shown, in which order: the steps of the way that is looked at, what was said about them in between, and damage
// where it happened. What a compaction replaced is folded away beneath a line, until it is opened. Pure: numbers in, numbers out.
import type { Path } from "./api";

/** Stands for the line of a compaction, in place of what it replaced. */
export const foldOf = (n: number): number => -n - 1;
export const isFold = (item: number): boolean => item < 0;
export const folded = (item: number): number => -item - 1;

export const order = (path: Path, opened: ReadonlySet<number>): number[] => {
  const folds: [number, number][] = [];
  let start = 0;
  for (const compaction of path.compactions.filter((one) => !one.undone).sort((a, b) => b.n - a.n)) {
    const kept = compaction.first_kept ?? compaction.n;
    const before = folds[0]?.[0];
    if (before !== undefined && kept >= before) continue;
    folds.unshift([kept, compaction.n]);
    if (!opened.has(compaction.n)) {
      start = kept;
      break;
    }
  }
  const asides = [...path.damage.map((damage) => damage.n), ...path.notes].sort((a, b) => a - b);
  const out: number[] = [];
  let [aside, fold, last] = [0, 0, -1];
  // An aside is shown if it stands directly behind something that is.
  const upTo = (n: number): void => {
    for (; aside < asides.length; aside++) {
      const it = asides[aside] as number;
      if (it >= n) break;
      if (it === last + 1 && it >= start) {
        out.push(it);
        last = it;
      } else if (it === last) continue;
      else if (it > last + 1 && it < n) continue;
    }
  };
  for (const [from, to] of path.ranges) {
    for (let n = Math.max(from, start); n <= to; n++) {
      if (n > last + 1 || aside < asides.length) upTo(n);
      while (fold < folds.length && (folds[fold] as [number, number])[0] <= n) {
        out.push(foldOf((folds[fold] as [number, number])[1]));
        fold += 1;
      }
      if (n > last) {
        out.push(n);
        last = n;
      }
    }
  }
  upTo(Number.POSITIVE_INFINITY);
  while (fold < folds.length) {
    out.push(foldOf((folds[fold] as [number, number])[1]));
    fold += 1;
  }
  return out;
};

/** The last step of a way. */
export const tip = (path: Path): number | null => path.ranges[path.ranges.length - 1]?.[1] ?? null;

/** Where in a rising list a number is, or would be; lines of compactions stand before what they lead to. */
export const find = (items: readonly number[], n: number): number => {
  let [low, high] = [0, items.length];
  const number = (index: number): number => {
    let at = index;
    while (at < items.length && isFold(items[at] as number)) at += 1;
    return at < items.length ? (items[at] as number) - (at - index) / 1000 : Number.POSITIVE_INFINITY;
  };
  while (low < high) {
    const middle = (low + high) >> 1;
    if (number(middle) < n) low = middle + 1;
    else high = middle;
  }
  return low;
};

/** The nearest item in a direction that a function is true of, or the first of which it cannot say yet. */
export const seek = (items: readonly number[], from: number, by: 1 | -1, is: (n: number) => boolean | undefined): { index: number; isKnown: boolean } | null => {
  for (let index = from + by; index >= 0 && index < items.length; index += by) {
    const n = items[index] as number;
    const so = isFold(n) ? false : is(n);
    if (so !== false) return { index, isKnown: so === true };
  }
  return null;
};

/** Two ways beside each other. */
export interface Sides {
  shared: number;
  left: number[];
  right: number[];
}

/** What two ways share, and what each has of its own. */
export const part = (left: Path, right: Path): Sides => {
  const all = new Set<number>();
  for (const compaction of [...left.compactions, ...right.compactions]) all.add(compaction.n);
  const [ours, theirs] = [order(left, all), order(right, all)].map((items) => items.filter((item) => item >= 0)) as [number[], number[]];
  let shared = 0;
  while (shared < ours.length && shared < theirs.length && ours[shared] === theirs[shared]) shared += 1;
  return { shared, left: ours.slice(shared), right: theirs.slice(shared) };
};
