/**
 * Where conversations are kept, and who shares the way there.
 *
 * Whoever says the same shares one child process, or one way to a server; it is closed when the last one closes it.
 */

import { resolve } from 'node:path';

import { Entries } from './entries.js';
import { UnforgetError } from './errors.js';
import { Http } from './http.js';
import { checkOptions } from './options.js';
import { Pipe } from './pipe.js';
import { findProgram } from './program.js';
import { PROTOCOL } from './wire.js';

/** A store on this machine, in a child process. */
export interface LocalOptions {
  /** The folder that everything is kept in; without one, the program's usual one. */
  readonly home?: string | undefined;
  /** The address of a remote that everything is copied to: `postgres://…`, `s3://…`, a folder; `false` for none, whatever the settings say. */
  readonly remote?: string | false | undefined;
  /** Whose sessions they are at the remote. */
  readonly tenant?: string | undefined;
  /** When an append is done: as soon as it is on the disk (the usual), or when the remote has it. */
  readonly ack?: 'disk' | 'remote' | undefined;
  /** The program; without one, that in the variable `UNFORGET_BIN`, or `unforget` in `PATH`. */
  readonly binary?: string | undefined;
  /** Is told, line by line, what the program prints for people. */
  readonly log?: ((line: string) => void) | undefined;
  readonly url?: undefined;
}

/** A store behind a server. */
export interface ServerOptions {
  /** The address of the server. */
  readonly url: string;
  /** Who is asking, as the server gave it out. */
  readonly token?: string | undefined;
}

/** Where conversations are kept. */
export type PlaceOptions = LocalOptions | ServerOptions;

interface Shared {
  readonly channel: Pipe | Http;
  readonly entries: Entries;
  users: number;
}

const shared = new Map<string, Shared>();

/** A share in the way to a place. */
export class Place {
  readonly channel: Pipe | Http;
  readonly entries: Entries;
  readonly #name: string;
  readonly #shared: Shared;
  readonly #log: ((line: string) => void) | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: PlaceOptions, own: readonly string[] = []) {
    checkOptions(options, own);
    const [name, open] = options.url === undefined ? local(options) : server(options);
    const found = shared.get(name) ?? begin(name, open(), options.url === undefined ? options.ack : undefined);
    found.users += 1;
    this.#name = name;
    this.#shared = found;
    this.channel = found.channel;
    this.entries = found.entries;
    if (options.url === undefined && options.log !== undefined && found.channel instanceof Pipe) {
      const { log } = options;
      this.#log = (line) => log(line);
      found.channel.logs.add(this.#log);
    }
  }

  /** Refuses to go on after `close`. */
  check(): void {
    if (this.#closed !== undefined) {
      throw new UnforgetError('closed', 'the store was closed');
    }
  }

  /** Asks whether the store can be reached and lets this caller in; changes nothing. */
  async connect(): Promise<void> {
    this.check();
    if (this.channel instanceof Http) {
      await this.channel.call({ method: 'GET', path: 'me', repeatable: true });
    } else {
      await this.channel.request({ operation: 'hello', members: { protocol: PROTOCOL }, repeatable: true });
    }
  }

  /** Gives the share back; the last one waits until everything that was asked is answered. */
  close(): Promise<void> {
    this.#closed ??= this.#leave();
    return this.#closed;
  }

  async #leave(): Promise<void> {
    this.#shared.users -= 1;
    if (this.#shared.users === 0) {
      shared.delete(this.#name);
      await this.entries.idle();
      await this.channel.close();
    }
    if (this.#log !== undefined && this.channel instanceof Pipe) {
      this.channel.logs.delete(this.#log);
    }
  }
}

function begin(name: string, channel: Pipe | Http, ack?: 'disk' | 'remote'): Shared {
  const begun = { channel, entries: new Entries(channel, ack), users: 0 };
  shared.set(name, begun);
  return begun;
}

function local(options: LocalOptions): [string, () => Pipe] {
  const { home, remote, tenant, ack, binary } = options;
  // Now and not at the first use: an SDK would turn that error into a message among many.
  const program = findProgram(binary);
  const which = { home: home === undefined ? undefined : resolve(home), remote, tenant, ack, binary: program };
  return [JSON.stringify(['child', which]), () => new Pipe(which)];
}

function server(options: ServerOptions): [string, () => Http] {
  const { url, token } = options;
  return [JSON.stringify(['server', url, token]), () => new Http({ url, token })];
}
