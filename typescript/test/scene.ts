/**
 * Where the tests keep things.
 *
 * Usually in a temporary home. `UNFORGET_TEST_REMOTE` adds a remote, with a tenant of its own for each test; `UNFORGET_TEST_URL` and `UNFORGET_TEST_TOKEN`
 * name a server, where tests keep out of each other's way by the names of their projects.
 */

import { randomUUID } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

import { type LocalOptions, type PlaceOptions, type SessionStoreOptions, UnforgetSessionStore } from 'unforget';

/** The program that is tested. */
export const PROGRAM = process.env['UNFORGET_BIN'] ?? 'unforget';
const REMOTE = process.env['UNFORGET_TEST_REMOTE'];
const URL = process.env['UNFORGET_TEST_URL'];
const TOKEN = process.env['UNFORGET_TEST_TOKEN'];

/** Why a test that ends the program cannot be run, if it cannot. */
export const needsProgram = URL === undefined ? false : 'the store is behind a server, whose process is not ours';

/** A test's own surroundings. */
export class Scene {
  readonly folder: string;
  readonly #mark = randomUUID();
  readonly #endings: (() => unknown)[] = [];

  constructor(context: TestContext) {
    this.folder = mkdtempSync(join(tmpdir(), 'unforget-test-'));
    this.atEnd(() => rmSync(this.folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
    context.after(async () => {
      for (const ending of this.#endings.reverse()) {
        await ending();
      }
    });
  }

  /** Does something at the end, before what was to be done earlier. */
  atEnd(ending: () => unknown): void {
    this.#endings.push(ending);
  }

  /** A name that no other test uses. */
  project(name: string): string {
    return URL === undefined ? name : `${name} ${this.#mark}`;
  }

  /** The place; another home is another machine, which shares the remote if there is one. */
  place(home = 'home'): PlaceOptions {
    return URL === undefined ? this.local({}, home) : { url: URL, token: TOKEN };
  }

  /** The place with a child process. */
  local(options: Partial<LocalOptions>, home = 'home'): LocalOptions {
    const there = REMOTE === undefined ? {} : { remote: REMOTE, tenant: this.#mark };
    return { home: join(this.folder, home), binary: PROGRAM, ...there, ...options };
  }

  /** A store there; it is closed at the end. */
  store(options: { project?: string } = {}): UnforgetSessionStore {
    return this.open({ ...this.place(), ...options });
  }

  /** A store that is closed at the end. */
  open(options: SessionStoreOptions): UnforgetSessionStore {
    const store = new UnforgetSessionStore(options);
    this.atEnd(() => store.close());
    return store;
  }

  /** A program that is a shell script. */
  script(name: string, text: string): string {
    const path = join(this.folder, name);
    writeFileSync(path, `#!/bin/sh\n${text}\n`);
    chmodSync(path, 0o755);
    return path;
  }

  /** A program that says that it is unforget, and does something else. */
  named(name: string, text: string): string {
    return this.script(name, `[ "$1" = --version ] && echo unforget 0 && exit\n${text}`);
  }

  /** The program, which writes down the number of each of its processes. */
  counted(): { binary: string; processes: () => number[] } {
    const list = join(this.folder, 'processes');
    writeFileSync(list, '');
    const binary = this.script('counted', `[ "$1" = --version ] || echo $$ >> '${list}'\nexec '${PROGRAM}' "$@"`);
    return { binary, processes: () => readFileSync(list, 'utf8').split('\n').filter(Boolean).map(Number) };
  }
}

/** Lets a promise fail within a time, so that a test that would wait for ever fails. */
export async function within<T>(milliseconds: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${milliseconds} ms`)), milliseconds);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
