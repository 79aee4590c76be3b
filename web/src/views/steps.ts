// The way from one thing that was said to the one before or behind it. What is between need not be here yet: it is fetched on the way, as far as that is
// bearable, and whoever goes elsewhere meanwhile is left alone.
import { useEffect, useRef } from "preact/hooks";
import { seek } from "../order";
import { said } from "../said";
import type { Talk } from "../talk";
import type { Shown } from "../virtual";

/** How many records are fetched at once on the way, and how often. */
const STRIDE = 100;
const STRIDES = 50;

export interface Steps {
  go: (by: 1 | -1) => void;
  /** Somebody goes elsewhere. */
  stop: () => void;
}

export const useSteps = (talk: Talk, items: readonly number[], shown: Shown): Steps => {
  const version = talk.version.value;
  const reached = useRef<number | null>(null);
  const wandering = useRef<{ by: 1 | -1; from: number; left: number } | null>(null);
  /** Where somebody is: at what they went to last, while that is in sight; at an end of the conversation; or in the middle of the screen. */
  const here = (): number => {
    const frame = shown.frame.current;
    if (!frame) return items.length;
    const [top, bottom] = [frame.scrollTop, frame.scrollTop + frame.clientHeight];
    const last = shown.items.find((item) => items[item.index] === reached.current && item.end > top && item.start < bottom);
    if (last) return last.index;
    if (bottom >= frame.scrollHeight - 1) return items.length;
    if (top <= 0) return -1;
    return shown.items.find((item) => item.end > (top + bottom) / 2)?.index ?? items.length;
  };
  const isSaid = (n: number): boolean | undefined => {
    const record = talk.lines.get(n)?.record;
    return record ? said(record).kind === "user" : talk.isRead(n) ? false : undefined;
  };
  const step = (by: 1 | -1, from: number, left: number): void => {
    wandering.current = null;
    const found = seek(items, from, by, isSaid);
    if (found === null) return;
    if (found.isKnown) {
      reached.current = items[found.index] ?? null;
      shown.list.scrollToIndex(found.index, { align: "center" });
    } else if (left > 0) {
      wandering.current = { by, from: found.index - by, left: left - 1 };
      const [low, high] = by > 0 ? [found.index, found.index + STRIDE] : [found.index - STRIDE + 1, found.index + 1];
      talk.ensure(items.slice(Math.max(0, low), high));
    }
  };
  useEffect(() => {
    const on = wandering.current;
    if (on) step(on.by, on.from, on.left);
  }, [version]);
  return {
    go: (by) => step(by, here(), STRIDES),
    stop: () => {
      wandering.current = null;
    },
  };
};
