// Long lists of which only what is seen is there.
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect, type VirtualItem } from "@tanstack/virtual-core";
import { type RefObject } from "preact";
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";

export interface Wish {
  count: number;
  estimate: (index: number) => number;
  keyOf: (index: number) => string | number;
  overscan?: number;
  /** Whether what is seen stays where it is when something before it comes or goes. */
  stays?: boolean;
}

export interface Shown {
  /** What scrolls. */
  frame: RefObject<HTMLElement | null>;
  /** What an item's element tells its height with. */
  measure: (element: HTMLElement | null) => void;
  items: VirtualItem[];
  height: number;
  list: Virtualizer<HTMLElement, HTMLElement>;
}

export const useVirtual = (wish: Wish): Shown => {
  const [, redraw] = useReducer<number, void>((times) => times + 1, 0);
  const frame = useRef<HTMLElement | null>(null);
  const options = {
    count: wish.count,
    getScrollElement: () => frame.current,
    estimateSize: wish.estimate,
    getItemKey: wish.keyOf,
    overscan: wish.overscan ?? 8,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    ...(wish.stays ? { anchorTo: "end" as const, scrollEndThreshold: 1 } : {}),
    onChange: () => redraw(),
  };
  const [list] = useState(() => new Virtualizer<HTMLElement, HTMLElement>(options));
  list.setOptions(options);
  useLayoutEffect(() => list._didMount(), []);
  useLayoutEffect(() => list._willUpdate());
  return {
    frame,
    measure: list.measureElement,
    items: list.getVirtualItems(),
    height: list.getTotalSize(),
    list,
  };
};

/** Nearer to the end than this counts as there. */
const NEAR = 60;

export interface Following {
  toEnd: () => void;
  /** Somebody goes elsewhere. */
  leave: () => void;
}

/** Stays at the end of something that grows, until somebody goes elsewhere by hand: what a list does to its place by itself does not count. */
export const useFollowing = (frame: RefObject<HTMLElement | null>, inside: RefObject<HTMLElement | null>, begins: boolean): Following => {
  const follows = useRef(begins);
  const toEnd = () => {
    follows.current = true;
    if (frame.current) frame.current.scrollTop = frame.current.scrollHeight;
  };
  const leave = () => {
    follows.current = false;
  };
  useEffect(() => {
    const [outer, inner] = [frame.current, inside.current];
    if (!outer || !inner) return;
    const stay = () => {
      if (follows.current) outer.scrollTop = outer.scrollHeight;
    };
    const observer = new ResizeObserver(stay);
    observer.observe(inner);
    observer.observe(outer);
    const arrived = () => {
      if (outer.scrollHeight - outer.scrollTop - outer.clientHeight < NEAR) follows.current = true;
    };
    const wheel = (event: WheelEvent) => event.deltaY < 0 && leave();
    const key = (event: KeyboardEvent) => ["ArrowUp", "PageUp", "Home"].includes(event.key) && leave();
    const press = (event: PointerEvent) => event.target === outer && leave();
    outer.addEventListener("scroll", arrived, { passive: true });
    outer.addEventListener("wheel", wheel, { passive: true });
    outer.addEventListener("touchmove", leave, { passive: true });
    outer.addEventListener("keydown", key);
    outer.addEventListener("pointerdown", press);
    stay();
    return () => {
      observer.disconnect();
      outer.removeEventListener("scroll", arrived);
      outer.removeEventListener("wheel", wheel);
      outer.removeEventListener("touchmove", leave);
      outer.removeEventListener("keydown", key);
      outer.removeEventListener("pointerdown", press);
    };
  }, []);
  return { toEnd, leave };
};
