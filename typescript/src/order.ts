/**
 * Who comes after whom.
 *
 * What changes the entries of one key happens in the order in which it was asked for, each when the one before is over; what is about different keys does not
 * wait for each other. Deleting a session comes after everything beneath it, and before everything that is asked for later.
 */

import type { WireKey } from './wire.js';

interface Line {
  /** The last one for the whole session. */
  session: Promise<unknown>;
  /** The last ones for each thing in it, by what is beneath. */
  readonly parts: Map<string | undefined, Promise<unknown>>;
  /** How many wait or run. */
  count: number;
}

/** The lines that requests wait in. */
export class Order {
  readonly #lines = new Map<string, Line>();

  /** Does something after everything that was asked for before with this key. */
  async inTurn<T>(key: WireKey, task: () => Promise<T>): Promise<T> {
    const line = this.#line(key);
    const mine = Promise.all([line.session, line.parts.get(key.subpath)]).then(task);
    line.parts.set(key.subpath, settled(mine));
    return this.#counted(key, line, mine);
  }

  /** Does something after everything that was asked for before with this session. */
  async forSession<T>(key: WireKey, task: () => Promise<T>): Promise<T> {
    const line = this.#line(key);
    const mine = Promise.all([line.session, ...line.parts.values()]).then(task);
    line.session = settled(mine);
    return this.#counted(key, line, mine);
  }

  /** Waits for what was asked for before with this key, and keeps nobody waiting. */
  async after(key: WireKey): Promise<void> {
    const line = this.#lines.get(nameOf(key));
    await Promise.all([line?.session, line?.parts.get(key.subpath)]);
  }

  #line(key: WireKey): Line {
    const name = nameOf(key);
    const line = this.#lines.get(name) ?? { session: Promise.resolve(), parts: new Map(), count: 0 };
    this.#lines.set(name, line);
    return line;
  }

  async #counted<T>(key: WireKey, line: Line, mine: Promise<T>): Promise<T> {
    line.count += 1;
    try {
      return await mine;
    } finally {
      line.count -= 1;
      if (line.count === 0) {
        this.#lines.delete(nameOf(key));
      }
    }
  }
}

function nameOf(key: WireKey): string {
  return JSON.stringify([key.project_key, key.session_id]);
}

function settled(promise: Promise<unknown>): Promise<unknown> {
  return promise.catch(() => undefined);
}
