/**
 * The store in a child process: `unforget store --stdio`.
 *
 * Any number of callers share one child. Each request has a number, and answers come in any order. If the child dies, another one is started, and what was
 * not answered is sent again as far as that is harmless; the rest fails with `lost`, and whoever asked has to find out what became of it.
 */

import { ATTEMPTS, pauseAfter, retrying, wait } from './backoff.js';
import { Child } from './child.js';
import { UnforgetError } from './errors.js';
import { commandOf, findProgram, isAnother, type StoreOptions } from './program.js';
import { type Answer, asRecord, asText, type Channel, pieces, PROTOCOL, type Request } from './wire.js';

/** The number of the request that begins a conversation with a child. */
const HELLO = 0;
/** What the program ends with if it does not like its arguments or settings. */
const USAGE = 2;
/** How long a child may take to answer its first request. */
const HELLO_MS = 30_000;
/** How long a child may take to end after its input ended; it may still be sending something to a remote. */
const END_MS = 20_000;

interface Pending {
  readonly request: Request;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: Error) => void;
  /** Whether a child was, or may have been, told of it. */
  isBegun: boolean;
}

/** A child process and its successors. */
export class Pipe implements Channel {
  readonly batchBytes = Number.POSITIVE_INFINITY;
  readonly isDirect = true;
  /** Who is told what the child prints on its standard error. */
  readonly logs = new Set<(line: string) => void>();
  readonly #options: StoreOptions;
  readonly #pending = new Map<number, Pending>();
  #lastNumber = HELLO;
  #child: Child | undefined;
  /** How many children there were; the number of the one that there is. */
  #children = 0;
  #starting: Promise<void> | undefined;
  #greeted: ((answer: Answer | Error) => void) | undefined;
  /** How many children in a row ended before they had answered anything. */
  #failures = 0;
  #isClosed = false;
  /** How many callers wait for something. */
  #callers = 0;
  #idle: (() => void) | undefined;
  #ended: (() => void) | undefined;

  constructor(options: StoreOptions) {
    this.#options = options;
  }

  get process(): number {
    return this.#children;
  }

  /** Has something done; what failed for a passing reason and may be carried out twice is tried again. */
  async request(request: Request): Promise<Answer> {
    if (this.#isClosed) {
      throw new UnforgetError('closed', 'the store was closed');
    }
    this.#callers += 1;
    try {
      return await (request.repeatable ? retrying(() => this.#ask(request)) : this.#ask(request));
    } finally {
      this.#callers -= 1;
      if (this.#callers === 0) {
        this.#idle?.();
      }
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#callers > 0) {
      await new Promise<void>((resolve) => {
        this.#idle = resolve;
      });
    }
    await this.#starting?.catch(() => undefined);
    const child = this.#child;
    if (child === undefined) {
      return;
    }
    child.hold(true);
    const ended = new Promise<void>((resolve) => {
      this.#ended = resolve;
    });
    const timer = setTimeout(() => child.kill(), END_MS);
    child.end();
    await ended;
    clearTimeout(timer);
  }

  #ask(request: Request): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#lastNumber += 1;
      const pending = { request, resolve, reject, isBegun: false };
      this.#pending.set(this.#lastNumber, pending);
      if (this.#child === undefined || this.#starting !== undefined) {
        this.#start();
      } else {
        this.#child.hold(true);
        this.#send(this.#child, this.#lastNumber, pending);
      }
    });
  }

  #send(child: Child, number: number, pending: Pending): void {
    const { operation, members, entries, process } = pending.request;
    if (process !== undefined && process !== this.#children) {
      this.#finish(number)?.reject(new UnforgetError('lost', 'the program ended'));
      return;
    }
    child.send(line({ ...members, id: number, op: operation }, entries), () => {
      pending.isBegun = true;
    });
  }

  /** Starts a child, and sends it everything that waits. */
  #start(): void {
    this.#starting ??= this.#tryToStart().then(
      () => {
        this.#starting = undefined;
        const child = this.#child;
        if (child === undefined) {
          // It ended right after its first answer.
          this.#goOn();
          return;
        }
        child.hold(true);
        for (const [number, pending] of this.#pending) {
          this.#send(child, number, pending);
        }
        this.#settleDown();
      },
      (error: Error) => {
        this.#starting = undefined;
        for (const number of [...this.#pending.keys()]) {
          this.#finish(number)?.reject(error);
        }
      },
    );
  }

  async #tryToStart(): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      if (this.#failures > 0) {
        await wait(pauseAfter(this.#failures));
      }
      const problem = await this.#startOnce();
      if (problem === undefined) {
        return;
      }
      this.#child?.kill();
      this.#child = undefined;
      if (problem.code === 'missing_program') {
        throw problem;
      }
      const program = findProgram(this.#options.binary);
      if (await isAnother(program)) {
        const words = `${program} is not the program unforget, or not one that works: ${problem.message}`;
        throw new UnforgetError('missing_program', `${words}; install unforget, or name it with the option \`binary\` or the variable UNFORGET_BIN`);
      }
      if (problem.code !== 'lost') {
        throw problem;
      }
      if (attempt >= ATTEMPTS) {
        throw new UnforgetError('missing_program', `the program cannot be run, tried ${attempt} times: ${problem.message}`);
      }
      this.#failures += 1;
    }
  }

  async #startOnce(): Promise<UnforgetError | undefined> {
    const answered = new Promise<Answer | Error>((resolve) => {
      this.#greeted = resolve;
    });
    let child: Child;
    try {
      child = new Child(commandOf(this.#options), {
        line: (text) => this.#take(child, text),
        log: (text) => this.#log(text),
        end: (reason, code) => this.#over(child, reason, code),
      });
    } catch (error) {
      if (error instanceof UnforgetError) {
        return error;
      }
      return new UnforgetError('missing_program', `the program cannot be started: ${(error as Error).message}`, { cause: error });
    }
    this.#child = child;
    this.#children += 1;
    child.send(line({ id: HELLO, op: 'hello', protocol: PROTOCOL }), () => undefined);
    const timer = setTimeout(() => {
      this.#greeted?.(new UnforgetError('lost', `the program did not answer within ${HELLO_MS / 1000} seconds`));
    }, HELLO_MS);
    const answer = await answered;
    clearTimeout(timer);
    this.#greeted = undefined;
    if (answer instanceof UnforgetError) {
      return answer;
    }
    if (answer instanceof Error) {
      return new UnforgetError('protocol', answer.message);
    }
    const protocol = (answer.ok as { protocol?: unknown } | null)?.protocol;
    if (protocol !== PROTOCOL) {
      return new UnforgetError('protocol', `the program speaks version ${String(protocol)} of the protocol, and this package version ${PROTOCOL}`);
    }
    return undefined;
  }

  #take(child: Child, text: string): void {
    if (child !== this.#child) {
      return;
    }
    let answer: Record<string, unknown>;
    try {
      answer = asRecord(JSON.parse(text));
    } catch {
      const problem = new UnforgetError('protocol', `the program said something that is not understood: ${text.slice(0, 200)}`);
      this.#log(problem.message);
      this.#greeted?.(problem);
      // Whose answer it was cannot be told.
      child.kill();
      return;
    }
    const number = answer['id'];
    const outcome = 'err' in answer ? refusal(answer) : { ok: answer['ok'], durability: answer['durability'] };
    if (number === HELLO) {
      this.#greeted?.(outcome);
      return;
    }
    this.#failures = 0;
    const pending = typeof number === 'number' ? this.#finish(number) : undefined;
    if (outcome instanceof Error) {
      pending?.reject(outcome);
    } else {
      pending?.resolve(outcome);
    }
  }

  #log(text: string): void {
    for (const log of this.logs) {
      log(text);
    }
  }

  #over(child: Child, reason: string, code: number | undefined): void {
    if (child !== this.#child) {
      return;
    }
    this.#child = undefined;
    this.#ended?.();
    const problem = new UnforgetError('lost', `the program ended before it answered (${reason})`);
    if (this.#greeted !== undefined) {
      // What ends by itself would end the next time, too.
      this.#greeted(code === undefined ? problem : this.#refusalToStart(reason, code));
      return;
    }
    this.#failures += 1;
    for (const [number, pending] of [...this.#pending]) {
      if (pending.isBegun) {
        this.#finish(number)?.reject(problem);
      }
    }
    this.#goOn();
  }

  #refusalToStart(reason: string, code: number): UnforgetError {
    if (code === USAGE) {
      return new UnforgetError('invalid', `the program refuses to be started like this (${reason})`);
    }
    const { home } = this.#options;
    return new UnforgetError('storage', `the program cannot open the store in ${home ?? 'its usual folder'} (${reason})`);
  }

  #goOn(): void {
    if (this.#pending.size > 0) {
      this.#start();
    }
  }

  #finish(number: number): Pending | undefined {
    const pending = this.#pending.get(number);
    this.#pending.delete(number);
    this.#settleDown();
    return pending;
  }

  #settleDown(): void {
    if (this.#pending.size === 0) {
      this.#child?.hold(false);
    }
  }
}

function* line(members: Record<string, unknown>, entries?: readonly string[]): Generator<string> {
  yield* pieces(members, entries);
  yield '\n';
}

function refusal(answer: Record<string, unknown>): UnforgetError {
  const { err, code } = answer;
  return new UnforgetError(typeof code === 'string' ? code : 'internal', asText(err));
}
