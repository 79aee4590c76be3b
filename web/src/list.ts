// The sessions that the list shows: fetched page by page as far as somebody scrolls, and looked at again while the page is seen.
import { batch, computed, signal } from "@preact/signals";
import * as api from "./api";
import type { Hit, Session, SessionQuery } from "./api";
import { wrong } from "./notice";

/** The first page is small, so that it is there at once; the others are large, so that nobody catches up with them. */
const FIRST = 60;
const NEXT = 500;
const AGAIN = 4000;
const HITS = 60;
const PINS = 50;
const TYPING = 120;
/** What is seen further down is looked at again every so many times: it is a larger page. */
const FURTHER = 3;

export interface Filters {
  agent: string;
  channel: string;
  peer: string;
  label: string;
  /** Hours back; empty for all. */
  within: string;
  state: NonNullable<SessionQuery["state"]>;
  pinned: boolean;
}

export const none: Filters = { agent: "", channel: "", peer: "", label: "", within: "", state: "", pinned: false };
export const filters = signal<Filters>(none);
export const isFiltered = computed(() => JSON.stringify(filters.value) !== JSON.stringify(none));
export const words = signal("");

/** What was fetched of the list, in its order, and those that are kept at the top. */
const fetched = signal<readonly Session[]>([]);
const pins = signal<readonly Session[]>([]);
export const rows = computed(() => {
  if (pins.value.length === 0) return fetched.value;
  const pinned = new Set(pins.value.map((row) => row.id));
  return [...pins.value, ...fetched.value.filter((row) => !pinned.has(row.id))];
});
export const isLoading = signal(true);
export const isWhole = signal(false);
export const problem = signal<string | null>(null);
export const searchProblem = signal<string | null>(null);
export const hits = signal<readonly Hit[] | null>(null);
export const hasMoreHits = signal(false);
export const isSearching = signal(false);

let cursor: string | null = null;
/** What each page after the first began with, and the cursor that leads there. */
let pages: { first: string; cursor: string }[] = [];
/** The last row that is drawn. */
let seen: string | undefined;
let times = 0;
/** Whether it was told that the list cannot be read on. */
let isTold = false;
let fetching: AbortController | null = null;
let searching: AbortController | null = null;
let typing: ReturnType<typeof setTimeout> | undefined;
let round = 0;

const asked = () => {
  const { agent, channel, peer, label, within, state, pinned } = filters.value;
  const hours = Number(within);
  const since = hours > 0 ? new Date(Date.now() - hours * 3_600_000).toISOString() : undefined;
  return { agent, channel, peer, label, since, state, pinned: pinned ? true : undefined };
};

/** Those that are kept at the top, unless something else is asked for. */
const readPins = async (): Promise<void> => {
  const mine = round;
  try {
    const found = isFiltered.value ? [] : (await api.sessions({ pinned: true, limit: PINS })).sessions;
    if (mine === round && JSON.stringify(found) !== JSON.stringify(pins.value)) pins.value = found;
  } catch {
    // The next look tells.
  }
};

/** Reads the list from its beginning. */
export const reload = async (): Promise<void> => {
  fetching?.abort();
  const control = (fetching = new AbortController());
  const mine = ++round;
  isLoading.value = true;
  void readPins();
  try {
    const page = await api.sessions({ ...asked(), limit: FIRST }, control.signal);
    if (mine !== round) return;
    batch(() => {
      fetched.value = page.sessions;
      cursor = page.next;
      pages = [];
      isWhole.value = page.next === null;
      problem.value = null;
    });
  } catch (error) {
    if (mine === round && !control.signal.aborted) problem.value = error instanceof Error ? error.message : String(error);
  } finally {
    if (mine === round) {
      isLoading.value = false;
      fetching = null;
    }
  }
};

/** Reads on. */
export const more = async (): Promise<void> => {
  if (fetching || cursor === null) return;
  const control = (fetching = new AbortController());
  const mine = round;
  try {
    const page = await api.sessions({ ...asked(), limit: NEXT, cursor }, control.signal);
    if (mine !== round) return;
    const known = new Set(fetched.value.map((row) => row.id));
    isTold = false;
    if (page.sessions[0]) pages.push({ first: page.sessions[0].id, cursor });
    batch(() => {
      fetched.value = fetched.value.concat(page.sessions.filter((row) => !known.has(row.id)));
      cursor = page.next;
      isWhole.value = page.next === null;
    });
  } catch (error) {
    if (mine === round) {
      if (!isTold) wrong(error);
      isTold = true;
      setTimeout(() => mine === round && void more(), 3000);
    }
  } finally {
    if (fetching === control) fetching = null;
  }
};

/** Says which row is the last that is drawn. */
export const see = (id: string | undefined): void => {
  seen = id;
};

/** What changed where the list is looked at, further down than its beginning. */
const furtherDown = async (): Promise<void> => {
  const before = fetched.value;
  const at = new Map(before.map((row, index) => [row.id, index]));
  const last = at.get(seen ?? "") ?? -1;
  const page = pages.findLast(({ first }) => (at.get(first) ?? Infinity) <= last);
  if (!page) return;
  const mine = round;
  const { sessions } = await api.sessions({ ...asked(), limit: Math.min(NEXT, last - (at.get(page.first) ?? 0) + 1), cursor: page.cursor });
  if (mine !== round || fetched.value !== before) return;
  const fresh = new Map(sessions.map((row) => [row.id, row]));
  const places = sessions.flatMap((row) => at.get(row.id) ?? []);
  const [low, high] = [Math.min(...places), Math.max(...places) + 1];
  if (places.length === 0) return;
  // What stood between these and does not any more was deleted, or is at the beginning now.
  const [stale, now] = [before.slice(low, high), before.slice(low, high).flatMap((row) => fresh.get(row.id) ?? [])];
  if (JSON.stringify(stale) !== JSON.stringify(now)) fetched.value = [...before.slice(0, low), ...now, ...before.slice(high)];
};

/** What changed at the beginning of the list, and who is live. */
const again = async (): Promise<void> => {
  if (document.visibilityState !== "visible" || fetching) return;
  const mine = round;
  void readPins();
  try {
    if (++times % FURTHER === 0) await furtherDown();
    const page = await api.sessions({ ...asked(), limit: FIRST });
    if (mine !== round) return;
    problem.value = null;
    const fresh = new Map(page.sessions.map((row) => [row.id, row]));
    // More came than a page holds: what is between is not known here, so the list begins anew.
    if (page.next !== null && fetched.value.length > 0 && !fetched.value.some((row) => fresh.has(row.id))) {
      batch(() => {
        fetched.value = page.sessions;
        cursor = page.next;
        pages = [];
        isWhole.value = false;
      });
      return;
    }
    // What was on this page and is not any more was deleted, or is further down, where it was seen last.
    const behind = fetched.value.slice(FIRST).filter((row) => !fresh.has(row.id));
    const moved = fetched.value.slice(0, FIRST).filter((row) => !fresh.has(row.id));
    const oldest = page.sessions[page.sessions.length - 1]?.updated ?? "";
    const kept = page.next === null ? [] : moved.filter((row) => (row.updated ?? "") <= oldest);
    const next = [...page.sessions, ...kept, ...(page.next === null ? [] : behind)];
    if (JSON.stringify(next.slice(0, FIRST)) !== JSON.stringify(fetched.value.slice(0, FIRST)) || next.length !== fetched.value.length) fetched.value = next;
    if (page.next === null) {
      cursor = null;
      pages = [];
      isWhole.value = true;
    } else if (fetched.value.length <= FIRST) {
      cursor = page.next;
      isWhole.value = false;
    }
  } catch (error) {
    if (error instanceof api.Problem) problem.value = error.status === 0 ? error.message : problem.value;
  }
};

/** The words as they are asked for: the last one may be the beginning of one. */
export const question = (text: string): string => {
  const typed = text.trim();
  const isOpen = (typed.match(/"/g)?.length ?? 0) % 2 === 1;
  if (isOpen) return `${typed}"`;
  return /[A-Za-z0-9\u00C0-\u024F\u0400-\u04FF]{2}$/.test(typed) && !/\b(AND|OR|NOT)$/.test(typed) ? `${typed}*` : typed;
};

export const look = (text: string): void => {
  words.value = text;
  clearTimeout(typing);
  searching?.abort();
  if (text.trim() === "") {
    batch(() => {
      hits.value = searchProblem.value = null;
      isSearching.value = false;
    });
    return;
  }
  isSearching.value = true;
  typing = setTimeout(() => void find(), TYPING);
};

const find = async (): Promise<void> => {
  const control = (searching = new AbortController());
  const { agent, channel, peer, since } = asked();
  try {
    const found = await api.search({ q: question(words.value), limit: HITS, agent, channel, peer, since }, control.signal);
    if (control.signal.aborted) return;
    batch(() => {
      hits.value = found.hits;
      hasMoreHits.value = found.more;
      isSearching.value = false;
      searchProblem.value = null;
    });
  } catch (error) {
    if (control.signal.aborted) return;
    batch(() => {
      hits.value = [];
      isSearching.value = false;
      searchProblem.value = error instanceof Error ? error.message : String(error);
    });
  }
};

export const filter = (change: Partial<Filters>): void => {
  filters.value = { ...filters.value, ...change };
  void reload();
  if (words.value.trim() !== "") look(words.value);
};

/** A row that is known to be another now, or to be gone. */
export const change = (id: string, row: Session | null): void => {
  const changed = (before: readonly Session[]) => (row ? before.map((one) => (one.id === id ? row : one)) : before.filter((one) => one.id !== id));
  batch(() => {
    fetched.value = changed(fetched.value);
    const others = pins.value.filter((one) => one.id !== id);
    pins.value = row?.pinned && !isFiltered.value ? [row, ...others] : others;
  });
};

export const begin = (): void => {
  void reload();
  setInterval(() => void again(), AGAIN);
  document.addEventListener("visibilitychange", () => void again());
};
