/**
 * One child process: lines in, lines out, and its end.
 *
 * It knows nothing of what the lines mean. What is written waits while the child does not read, and the child keeps this process alive only while it is held.
 */

import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';

import { Lines } from './lines.js';

/** What to start. */
export interface Command {
  readonly program: string;
  readonly arguments: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

/** Who is told. */
export interface Listener {
  /** A line of its standard output. */
  line(line: string): void;
  /** A line of its standard error. */
  log(line: string): void;
  /** It is over; everything that it said was told before. Told once, with the code that it ended with by itself, if it did. */
  end(reason: string, code: number | undefined): void;
}

/** How many lines of what it printed for people are told with its end. */
const KEPT_WORDS = 20;

interface Sending {
  readonly pieces: Iterable<string>;
  readonly begun: () => void;
}

/** A child process. */
export class Child {
  readonly #process: ChildProcessByStdio<Writable | null, Readable | null, Readable | null>;
  readonly #queue: Sending[] = [];
  #isPumping = false;
  #isEnding = false;
  #isOver = false;
  #wake: (() => void) | undefined;

  constructor(command: Command, listener: Listener) {
    this.#process = spawn(command.program, [...command.arguments], {
      env: { ...process.env, ...command.environment },
      stdio: ['pipe', 'pipe', 'pipe'],
      // Ctrl-C in a terminal is for this process, which may have something to say before it ends.
      detached: process.platform !== 'win32',
      windowsHide: true,
    });
    const said = new Lines();
    const logged = new Lines();
    const lastWords: string[] = [];
    const log = (line: string): void => {
      lastWords.push(line);
      lastWords.splice(0, lastWords.length - KEPT_WORDS);
      listener.log(line);
    };
    const finish = (reason: string, code?: number): void => {
      if (this.#isOver) {
        return;
      }
      this.#isOver = true;
      this.#wake?.();
      const rest = logged.rest();
      if (rest !== '') {
        log(rest);
      }
      const words = lastWords.join('\n').trim();
      listener.end(words === '' ? reason : `${reason}: ${words}`, code);
    };
    // Before anything else: what could not be started tells so a moment later, and an error that nobody listens to ends this process.
    this.#process.on('error', (error) => finish(error.message));
    this.#process.on('close', (code, signal) => finish(signal === null ? `ended with code ${code}` : `ended by ${signal}`, code ?? undefined));
    const { stdin, stdout, stderr } = this.#process;
    // A pipe that breaks is followed by the end of the process, which is told. Without a process there may be no pipes, whatever the types say.
    stdin?.on('error', () => this.#wake?.());
    stdin?.on('drain', () => this.#wake?.());
    stdin?.on('close', () => this.#wake?.());
    stdout?.on('data', (piece: Buffer) => said.feed(piece, (line) => listener.line(line)));
    stderr?.on('data', (piece: Buffer) => logged.feed(piece, log));
  }

  /** Writes a line behind everything else that is being written; `begun` is told before its first byte. */
  send(line: Iterable<string>, begun: () => void): void {
    this.#queue.push({ pieces: line, begun });
    void this.#pump();
  }

  /** Ends its input behind everything that is being written. */
  end(): void {
    this.#isEnding = true;
    void this.#pump();
  }

  /** Ends it at once. */
  kill(): void {
    this.#process.kill('SIGKILL');
  }

  /** Says whether this process stays alive for it. */
  hold(isHeld: boolean): void {
    const handles: unknown[] = [this.#process, this.#process.stdin, this.#process.stdout, this.#process.stderr];
    for (const handle of handles as ({ ref?: () => void; unref?: () => void } | null | undefined)[]) {
      if (isHeld) {
        handle?.ref?.();
      } else {
        handle?.unref?.();
      }
    }
  }

  async #pump(): Promise<void> {
    if (this.#isPumping) {
      return;
    }
    this.#isPumping = true;
    const { stdin } = this.#process;
    for (let next = this.#queue.shift(); next !== undefined && this.#canWrite(); next = this.#queue.shift()) {
      next.begun();
      for (const piece of next.pieces) {
        if (!this.#canWrite()) {
          break;
        }
        if (stdin?.write(piece) === false) {
          await this.#drained();
        }
      }
    }
    this.#isPumping = false;
    if (this.#isEnding && this.#canWrite()) {
      stdin?.end();
    }
  }

  #canWrite(): boolean {
    return !this.#isOver && this.#process.stdin?.writable === true;
  }

  async #drained(): Promise<void> {
    while (this.#canWrite() && this.#process.stdin?.writableNeedDrain === true) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
  }
}
