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
    // Whether the end is followed is for `useFollowing` to say: no distance counts as there for the list.
    ...(wish.stays ? { anchorTo: "end" as const, scrollEndThreshold: -1 } : {}),
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

/**
 * Stays at the end of something that grows, until somebody goes elsewhere by hand: what a list does to its place by itself does not count. Whoever opens something
 * inside, or goes into it by key, wants to see that: then the end is followed on only if it is near all the same.
 */
export const useFollowing = (frame: RefObject<HTMLElement | null>, inside: RefObject<HTMLElement | null>, begins: boolean): Following => {
  const follows = useRef<"yes" | "no" | "if near">(begins ? "yes" : "no");
  const toEnd = () => {
    follows.current = "yes";
    if (frame.current) frame.current.scrollTop = frame.current.scrollHeight;
  };
  const leave = () => {
    follows.current = "no";
  };
  useEffect(() => {
    const [outer, inner] = [frame.current, inside.current];
    if (!outer || !inner) return;
    const isNear = () => outer.scrollHeight - outer.scrollTop - outer.clientHeight < NEAR;
    const stay = () => {
      if (follows.current === "if near") follows.current = isNear() ? "yes" : "no";
      if (follows.current === "yes") outer.scrollTop = outer.scrollHeight;
    };
    const observer = new ResizeObserver(stay);
    observer.observe(inner);
    observer.observe(outer);
    const arrived = () => {
      if (isNear()) follows.current = "yes";
    };
    const hold = () => {
      if (follows.current === "yes") follows.current = "if near";
    };
    const wheel = (event: WheelEvent) => event.deltaY < 0 && leave();
    const key = (event: KeyboardEvent) => ["ArrowUp", "PageUp", "Home"].includes(event.key) && leave();
    const press = (event: PointerEvent) => event.target === outer && leave();
    const enter = (event: FocusEvent) => (event.target as Element).matches(":focus-visible") && hold();
    // What opens tells of it only behind the moment in which it grows: the click comes before.
    const open = (event: MouseEvent) => (event.target as Element).closest("summary, button") && hold();
    outer.addEventListener("scroll", arrived, { passive: true });
    outer.addEventListener("wheel", wheel, { passive: true });
    outer.addEventListener("touchmove", leave, { passive: true });
    outer.addEventListener("keydown", key);
    outer.addEventListener("pointerdown", press);
    inner.addEventListener("focusin", enter);
    inner.addEventListener("click", open);
    stay();
    return () => {
      observer.disconnect();
      outer.removeEventListener("scroll", arrived);
      outer.removeEventListener("wheel", wheel);
      outer.removeEventListener("touchmove", leave);
      outer.removeEventListener("keydown", key);
      outer.removeEventListener("pointerdown", press);
      inner.removeEventListener("focusin", enter);
      inner.removeEventListener("click", open);
    };
  }, []);
  return { toEnd, leave };
};
