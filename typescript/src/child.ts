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
  /** It is over; everything that it said was told before. Told once. */
  end(reason: string): void;
}

interface Sending {
  readonly pieces: Iterable<string>;
  readonly begun: () => void;
}

/** A child process. */
export class Child {
  readonly #process: ChildProcessByStdio<Writable, Readable, Readable>;
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
    const { stdin, stdout, stderr } = this.#process;
    const said = new Lines();
    const logged = new Lines();
    let lastLog = '';
    const log = (line: string): void => {
      lastLog = line;
      listener.log(line);
    };
    stdout.on('data', (piece: Buffer) => said.feed(piece, (line) => listener.line(line)));
    stderr.on('data', (piece: Buffer) => logged.feed(piece, log));
    const finish = (reason: string): void => {
      if (this.#isOver) {
        return;
      }
      this.#isOver = true;
      this.#wake?.();
      const rest = logged.rest();
      if (rest !== '') {
        log(rest);
      }
      listener.end(lastLog === '' ? reason : `${reason}: ${lastLog}`);
    };
    // A pipe that breaks is followed by the end of the process, which is told.
    stdin.on('error', () => this.#wake?.());
    stdin.on('drain', () => this.#wake?.());
    stdin.on('close', () => this.#wake?.());
    this.#process.on('error', (error) => finish(error.message));
    this.#process.on('close', (code, signal) => finish(signal === null ? `ended with code ${code}` : `ended by ${signal}`));
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
    for (const handle of handles as { ref?: () => void; unref?: () => void }[]) {
      if (isHeld) {
        handle.ref?.();
      } else {
        handle.unref?.();
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
        if (!stdin.write(piece)) {
          await this.#drained();
        }
      }
    }
    this.#isPumping = false;
    if (this.#isEnding && this.#canWrite()) {
      stdin.end();
    }
  }

  #canWrite(): boolean {
    return !this.#isOver && this.#process.stdin.writable;
  }

  async #drained(): Promise<void> {
    while (this.#canWrite() && this.#process.stdin.writableNeedDrain) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
  }
}
