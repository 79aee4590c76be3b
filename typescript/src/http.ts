/**
 * The store behind a server: `unforget serve`.
 */

import { retrying, wait } from './backoff.js';
import { UnforgetError } from './errors.js';
import { type Answer, asRecord, type Channel, pieces, type Request } from './wire.js';

/** A server takes more, but others on the way may not. */
const BATCH_BYTES = 4 * 1024 * 1024 - 64 * 1024;
/** How long a request may take. */
const REQUEST_MS = 120_000;
/** The longest pause that a server may ask for. */
const LONGEST_PAUSE_MS = 10_000;

const CODES: Readonly<Record<number, string>> = {
  400: 'invalid',
  401: 'unauthenticated',
  403: 'forbidden',
  404: 'not_found',
  405: 'method_not_allowed',
  408: 'timeout',
  409: 'conflict',
  413: 'too_large',
  415: 'unsupported_media',
  421: 'moved',
  429: 'too_many',
  // Somebody on the way had no answer from the server, which may have carried out what was asked.
  502: 'lost',
  503: 'unavailable',
  504: 'lost',
  507: 'storage',
};

/** Which server. */
export interface HttpOptions {
  readonly url: string;
  readonly token?: string | undefined;
}

/** A request to a route. */
export interface Call {
  readonly method: 'GET' | 'POST';
  /** What follows `/v1/`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: string;
  readonly repeatable: boolean;
}

/** A server. */
export class Http implements Channel {
  readonly batchBytes = BATCH_BYTES;
  readonly isDirect = false;
  /** There may be several, or somebody in between. */
  readonly process = undefined;
  readonly #base: URL;
  readonly #token: string | undefined;
  #isClosed = false;
  #callers = 0;
  #idle: (() => void) | undefined;

  constructor(options: HttpOptions) {
    this.#base = baseOf(options.url);
    this.#token = options.token;
  }

  async request(request: Request): Promise<Answer> {
    const body = [...pieces(request.members, request.entries)].join('');
    const path = `entries/${request.operation}`;
    const answer = asRecord(await this.call({ method: 'POST', path, body, repeatable: request.repeatable }));
    return { ok: answer['ok'], durability: answer['durability'] };
  }

  /** Calls a route, and answers with what it answers. */
  async call(call: Call): Promise<unknown> {
    if (this.#isClosed) {
      throw new UnforgetError('closed', 'the store was closed');
    }
    this.#callers += 1;
    try {
      return await (call.repeatable ? retrying(() => this.#fetch(call)) : this.#fetch(call));
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
  }

  async #fetch(call: Call): Promise<unknown> {
    const url = new URL(`v1/${call.path}`, this.#base);
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value !== undefined) {
        url.searchParams.set(name, value instanceof Date ? value.toISOString() : String(value));
      }
    }
    let status: number;
    let headers: Headers;
    let text: string;
    try {
      const response = await fetch(url, {
        method: call.method,
        headers: {
          ...(this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }),
          ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(call.body === undefined ? {} : { body: call.body }),
        redirect: 'error',
        signal: AbortSignal.timeout(REQUEST_MS),
      });
      ({ status, headers } = response);
      text = await response.text();
    } catch (error) {
      throw new UnforgetError('lost', `the server at ${this.#base.origin} did not answer: ${reasonOf(error)}`, { cause: error });
    }
    if (status >= 200 && status < 300) {
      return parse(text);
    }
    const problem = refusal(status, text);
    await wait(pauseIn(headers));
    throw problem;
  }
}

function baseOf(text: string): URL {
  let url: URL;
  try {
    url = new URL(text.endsWith('/') ? text : `${text}/`);
  } catch (error) {
    throw new UnforgetError('invalid', `no address of a server: ${text}`, { cause: error });
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new UnforgetError('invalid', `the address of a server begins with http:// or https://, and not with ${url.protocol}//`);
  }
  return url;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UnforgetError('protocol', `the server said something that is not understood: ${text.slice(0, 200)}`, { cause: error });
  }
}

function refusal(status: number, text: string): UnforgetError {
  try {
    const { code, message } = asRecord(asRecord(JSON.parse(text))['error']);
    if (typeof code === 'string' && typeof message === 'string') {
      return new UnforgetError(code, message);
    }
  } catch {
    // Somebody on the way answered in the server's place.
  }
  return new UnforgetError(CODES[status] ?? 'internal', `the server answered with status ${status}: ${text.slice(0, 200)}`);
}

/** How long the server wants to be left alone, in milliseconds. */
function pauseIn(headers: Headers): number {
  const seconds = Number(headers.get('retry-after') ?? 0);
  return Number.isFinite(seconds) ? Math.min(Math.max(seconds, 0) * 1000, LONGEST_PAUSE_MS) : 0;
}

function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? `${message} (${cause.message})` : message;
}
