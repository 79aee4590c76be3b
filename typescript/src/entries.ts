/**
 * The entries of sessions, over any channel: appended once each, in order, and read page by page.
 *
 * Whoever shares a channel shares this, too, because it is what knows who came first and what is there already.
 */

import { GaveUp, retrying } from './backoff.js';
import { isTransient, UnforgetError } from './errors.js';
import { Order } from './order.js';
import { arrived, digestOf, isMarked, type Standing, standingAt, Unmarked } from './unmarked.js';
import { asPage, type Channel, type WireKey } from './wire.js';

/** An entry on its way to the store. */
interface Outgoing {
  readonly text: string;
  readonly isMarked: boolean;
}

/** The store's operations on entries. */
export class Entries {
  readonly #channel: Channel;
  readonly #isRemoteAwaited: boolean;
  readonly #order = new Order();
  readonly #unmarked = new Unmarked();
  /** How often something was begun that changes entries. */
  #changes = 0;
  readonly #running = new Set<Promise<unknown>>();

  constructor(channel: Channel, ack: 'disk' | 'remote' = 'disk') {
    this.#channel = channel;
    this.#isRemoteAwaited = ack === 'remote';
  }

  /** Appends entries; they are kept when this returns. */
  async append(key: WireKey, entries: readonly object[]): Promise<void> {
    const outgoing = entries.map(encode);
    if (outgoing.length > 0) {
      await this.#tracked(this.#order.inTurn(key, () => this.#append(key, outgoing)));
    }
  }

  /** Everything that a key has, or null if nothing was ever appended. */
  async load(key: WireKey): Promise<Record<string, unknown>[] | null> {
    return this.#tracked(this.#order.after(key).then(() => this.#load(key)));
  }

  /** Deletes what a key has, and everything beneath it. */
  async delete(key: WireKey): Promise<void> {
    const task = async (): Promise<void> => {
      this.#changes += 1;
      this.#unmarked.forget(key);
      await this.#channel.request({ operation: 'delete', members: { key }, repeatable: true });
    };
    await this.#tracked(key.subpath === undefined ? this.#order.forSession(key, task) : this.#order.inTurn(key, task));
  }

  /** Waits until nothing is going on. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) {
      await Promise.allSettled(this.#running);
    }
  }

  async #tracked<T>(task: Promise<T>): Promise<T> {
    this.#running.add(task);
    try {
      return await task;
    } finally {
      this.#running.delete(task);
    }
  }

  async #load(key: WireKey): Promise<Record<string, unknown>[] | null> {
    const changes = this.#changes;
    let all: Record<string, unknown>[] = [];
    const isThere = await this.#read(key, (entries, isFirst) => {
      if (isFirst) {
        all = [];
      }
      for (const entry of entries) {
        all.push(entry);
      }
    });
    if (changes === this.#changes && this.#unmarked.unfinished(key) === undefined) {
      this.#unmarked.remember(key, all.filter((entry) => !isMarked(entry)).length);
    }
    return isThere ? all : null;
  }

  async #append(key: WireKey, entries: readonly Outgoing[]): Promise<void> {
    this.#changes += 1;
    const batches = split(entries, this.#channel.batchBytes);
    if (entries.every((entry) => entry.isMarked)) {
      for (const batch of batches) {
        await this.#send(key, batch, true);
      }
      return;
    }
    const digest = digestOf(entries.map((entry) => entry.text));
    const failed = this.#unmarked.unfinished(key);
    const repeated = failed?.digest === digest ? failed : undefined;
    const known = failed === undefined ? this.#unmarked.count(key) : undefined;
    const counted = repeated === undefined ? (known ?? (await this.#count(key))) : repeated.standing.before;
    let standing = repeated?.standing ?? standingAt(counted ?? 0);
    let done = repeated?.done ?? 0;
    for (const batch of batches.slice(done)) {
      try {
        standing = standingAt(await this.#appendOnce(key, batch, standing));
      } catch (error) {
        this.#unmarked.remember(key, standing.before, { digest, done, standing });
        throw error;
      }
      done += 1;
    }
    if (counted === undefined) {
      this.#unmarked.forget(key);
    } else {
      this.#unmarked.remember(key, standing.before);
    }
  }

  /**
   * How many entries without a `uuid` there are.
   *
   * Not known if the session is not here and the remote does not answer: that must not keep anything from being saved. As the session is then new here, what
   * is here after a failure is what arrived.
   */
  async #count(key: WireKey): Promise<number | undefined> {
    return retrying(async () => {
      try {
        return (await this.#unmarkedSince(key, 0, !this.#channel.isDirect)).length;
      } catch (error) {
        if (this.#channel.isDirect && isTransient(error) && isRefusal(error)) {
          return undefined;
        }
        throw error;
      }
    });
  }

  /**
   * Appends a batch of which some entries have no `uuid`.
   *
   * A process of the store that says "try again" knows what it has kept of that, and takes the same once more as the same. It even counts on it: what it kept for
   * a remote that did not answer, it expects again, and only that process does. So it gets the same; before anything is sent to another one, the store is read.
   *
   * @param standing - is told how far it came, if this fails
   * @returns how many such entries there are now
   */
  async #appendOnce(key: WireKey, batch: readonly Outgoing[], standing: Standing): Promise<number> {
    const texts = batch.filter((entry) => !entry.isMarked).map((entry) => entry.text);
    return retrying(async () => {
      const process = standing.refusedBy;
      if (standing.isDoubtful && process === undefined) {
        const since = await this.#unmarkedSince(key, standing.before).catch((error: unknown) => {
          throw new GaveUp(error);
        });
        standing.there = standing.before + since.length;
        standing.arrived = arrived(texts, since);
      }
      const rest = without(batch, standing.arrived);
      try {
        await this.#send(key, rest, false, process);
      } catch (error) {
        standing.isDoubtful ||= !isUnchanged(error);
        standing.refusedBy = isTransient(error) && isRefusal(error) ? this.#channel.process : undefined;
        throw error;
      }
      return standing.there + texts.length - standing.arrived;
    });
  }

  async #send(key: WireKey, batch: readonly Outgoing[], repeatable: boolean, process?: number): Promise<void> {
    const entries = batch.map((entry) => entry.text);
    // Also without entries: whoever waits for a remote tells whether it has everything, and whether a server does is not known here.
    const { durability } = await this.#channel.request({ operation: 'append', members: { key }, entries, repeatable, process });
    if (entries.length === 0 && this.#isRemoteAwaited && durability !== 'remote') {
      throw new UnforgetError('unavailable', 'the entries are kept here, and it is not known whether the remote has them');
    }
  }

  /** The texts of the entries without a `uuid`, but for so many first ones. */
  async #unmarkedSince(key: WireKey, before: number, repeatable = true): Promise<string[]> {
    let seen = 0;
    let since: string[] = [];
    const take = (entries: readonly Record<string, unknown>[], isFirst: boolean): void => {
      if (isFirst) {
        seen = 0;
        since = [];
      }
      for (const entry of entries.filter((entry) => !isMarked(entry))) {
        seen += 1;
        if (seen > before) {
          since.push(JSON.stringify(entry));
        }
      }
    };
    await this.#read(key, take, repeatable);
    return since;
  }

  /** Reads page by page, if anything was ever appended; a page that is the first one makes void what was told before. */
  async #read(
    key: WireKey,
    take: (entries: readonly Record<string, unknown>[], isFirst: boolean) => void,
    repeatable = true,
  ): Promise<boolean> {
    let cursor: string | null = null;
    for (;;) {
      const { ok } = await this.#channel.request({ operation: 'read', members: { key, cursor }, repeatable });
      if (ok === null) {
        take([], true);
        return false;
      }
      const page = asPage(ok);
      take(page.entries, cursor === null || page.again);
      cursor = page.cursor;
      if (!page.more) {
        return true;
      }
    }
  }
}

function encode(entry: object, at: number): Outgoing {
  const text = JSON.stringify(entry);
  if (typeof entry !== 'object' || entry === null || !text?.startsWith('{')) {
    throw new UnforgetError('invalid', `entry ${at} is no JSON object`);
  }
  return { text, isMarked: isMarked(entry as Record<string, unknown>) };
}

/** Batches of at most so many bytes, or of a single entry. */
function split(entries: readonly Outgoing[], bytes: number): Outgoing[][] {
  const batches: Outgoing[][] = [];
  let room = 0;
  for (const entry of entries) {
    const length = Buffer.byteLength(entry.text) + 1;
    const last = batches.at(-1);
    if (last === undefined || length > room) {
      batches.push([entry]);
      room = bytes - length;
    } else {
      last.push(entry);
      room -= length;
    }
  }
  return batches;
}

/** The batch without so many first ones of the entries that have no `uuid`. */
function without(batch: readonly Outgoing[], count: number): Outgoing[] {
  let left = count;
  return batch.filter((entry) => {
    if (entry.isMarked || left === 0) {
      return true;
    }
    left -= 1;
    return false;
  });
}

/** Whether it was refused before anything was changed. After anything else some entries may be kept: who waits for a remote keeps them here and says no. */
function isUnchanged(error: unknown): boolean {
  return error instanceof UnforgetError && ['invalid', 'too_large'].includes(error.code);
}

/** Whether the store, or somebody on the way there, said no. */
function isRefusal(error: unknown): boolean {
  return error instanceof UnforgetError && !['lost', 'internal', 'protocol'].includes(error.code);
}
