/**
 * Entries without a `uuid`, and how many of them a key has.
 *
 * An entry with a `uuid` may be sent twice: the store keeps it once. One without is appended each time it is sent. So if it is not known whether an `append`
 * arrived, the store is read, and what it has beyond the number that it had before tells how far it came. That number is remembered here for the keys that
 * were used last, so that a session is read for it once, if at all.
 */

import { createHash } from 'node:crypto';

import type { WireKey } from './wire.js';

/** How many keys are remembered. */
const REMEMBERED = 4096;

/** How far a batch has come; it outlives a failure. */
export interface Standing {
  /** How many entries without a `uuid` there were before it. */
  readonly before: number;
  /** How many there were when it was looked last. */
  there: number;
  /** How many of its own were there then. */
  arrived: number;
  /** Whether more of it may be there. That ends when it is appended, and not before. */
  isDoubtful: boolean;
  /** The process of the store that refused the rest of it, and expects it again. */
  refusedBy: number | undefined;
}

/** A batch of which nothing was sent yet, behind so many entries without a `uuid`. */
export function standingAt(count: number): Standing {
  return { before: count, there: count, arrived: 0, isDoubtful: false, refusedBy: undefined };
}

/** An `append` that failed and may be tried again by whoever asked for it. */
export interface Unfinished {
  /** What tells it from others. */
  readonly digest: string;
  /** How many of its batches are kept for certain. */
  readonly done: number;
  /** How far the next batch has come. */
  readonly standing: Standing;
}

interface Known {
  readonly count: number;
  readonly unfinished?: Unfinished;
}

/** What is known of keys. */
export class Unmarked {
  readonly #known = new Map<string, Known>();

  /** How many there are with this key, if that is known. */
  count(key: WireKey): number | undefined {
    return this.#known.get(nameOf(key))?.count;
  }

  /** What failed last with this key. */
  unfinished(key: WireKey): Unfinished | undefined {
    return this.#known.get(nameOf(key))?.unfinished;
  }

  /** Remembers that so many are there; or, with something unfinished, that so many were there before its first batch that is not done. */
  remember(key: WireKey, count: number, unfinished?: Unfinished): void {
    const name = nameOf(key);
    this.#known.delete(name);
    this.#known.set(name, unfinished === undefined ? { count } : { count, unfinished });
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= REMEMBERED) {
        break;
      }
      this.#known.delete(oldest);
    }
  }

  /** Forgets a key, and everything beneath it. */
  forget(key: WireKey): void {
    if (key.subpath !== undefined) {
      this.#known.delete(nameOf(key));
      return;
    }
    const start = nameOf(key).slice(0, -'null]'.length);
    for (const name of [...this.#known.keys()].filter((name) => name.startsWith(start))) {
      this.#known.delete(name);
    }
  }
}

/** Whether the store tells it from others. */
export function isMarked(entry: Readonly<Record<string, unknown>>): boolean {
  const uuid = entry['uuid'];
  return typeof uuid === 'string' && uuid !== '';
}

/**
 * How many of the first of these arrived, if this is what came to be there since.
 *
 * What arrived is at the end. If somebody else wrote at the same time and it cannot be told, the answer is the smaller number: twice is better than never.
 */
export function arrived(texts: readonly string[], since: readonly string[]): number {
  for (let count = Math.min(texts.length, since.length); count > 0; count -= 1) {
    const start = since.length - count;
    let same = 0;
    while (same < count && since[start + same] === texts[same]) {
      same += 1;
    }
    if (same === count) {
      return count;
    }
  }
  return 0;
}

/** What tells a list of texts from others. */
export function digestOf(texts: readonly string[]): string {
  const hash = createHash('sha256');
  for (const text of texts) {
    hash.update(text).update('\n');
  }
  return hash.digest('hex');
}

function nameOf(key: WireKey): string {
  return JSON.stringify([key.project_key, key.session_id, key.subpath ?? null]);
}
