/**
 * The conversations of the program itself: those of its terminal, and of its server.
 */

import { randomUUID } from 'node:crypto';

import { retrying } from './backoff.js';
import { UnforgetError } from './errors.js';
import { Http } from './http.js';
import { Place, type PlaceOptions } from './place.js';
import { asList, asNumber, asRecord, asText } from './wire.js';
import type { Found, History, ListOptions, Message, SearchOptions, SessionDescription, SessionReference } from './sessions-types.js';

/** How many sessions are asked for at a time. */
const PAGE = 100;

/** Lists, searches, reads and continues conversations. */
export class Sessions {
  readonly #place: Place;

  constructor(options: PlaceOptions = {}) {
    this.#place = new Place(options);
  }

  /** Throws if the conversations cannot be reached: the program does not start, the server refuses the token. */
  connect(): Promise<void> {
    return this.#place.connect();
  }

  /** All sessions, those that were used last first; fetched while they are gone through. */
  async *list(options: ListOptions = {}): AsyncGenerator<SessionDescription, void, undefined> {
    let cursor: string | undefined;
    do {
      const page = asRecord(await this.#ask('sessions', { limit: PAGE, ...options, cursor }));
      for (const session of asList(page['sessions'])) {
        yield asRecord(session) as unknown as SessionDescription;
      }
      const { next } = page;
      cursor = typeof next === 'string' ? next : undefined;
    } while (cursor !== undefined);
  }

  /** What was said in any session: words, `"a phrase"`, `begin*`, `this OR that`, `-without`. */
  async search(words: string, options: SearchOptions = {}): Promise<Found> {
    return asRecord(await this.#ask('search', { ...options, q: words })) as unknown as Found;
  }

  /** A conversation as it would be sent to a model, at most so many tokens of it. */
  async history(session: SessionReference, options: { readonly budget?: number | undefined } = {}): Promise<History> {
    const { budget } = options;
    this.#place.check();
    const { channel } = this.#place;
    let answer: Record<string, unknown>;
    if (channel instanceof Http) {
      const id = await this.#idOf(channel, session);
      const path = `sessions/${encodeURIComponent(id)}/messages`;
      answer = { ...asRecord(await channel.call({ method: 'GET', path, query: { budget }, repeatable: true })), session_id: id };
    } else {
      answer = asRecord(await this.#ask('history', { ...naming(session), budget }));
    }
    const { session_id: sessionId, ...rest } = answer;
    return { ...rest, sessionId: asText(sessionId) } as unknown as History;
  }

  /**
   * Appends messages that another program's agent said or heard; a key that has no session yet gets one.
   *
   * @param options - with a `clientId` that was used in that session before, nothing is appended again
   */
  async append(
    session: SessionReference,
    messages: readonly Message[],
    options: { readonly clientId?: string | undefined } = {},
  ): Promise<{ sessionId: string; n: number }> {
    // With a name of its own it can be sent again after the connection broke.
    const clientId = options.clientId ?? randomUUID();
    const members = { messages, client_id: clientId };
    this.#place.check();
    const { channel } = this.#place;
    if (channel instanceof Http) {
      const id = await this.#idOf(channel, session, 'create');
      const path = `sessions/${encodeURIComponent(id)}/messages`;
      const answer = asRecord(await channel.call({ method: 'POST', path, body: JSON.stringify(members), repeatable: true }));
      return { sessionId: id, n: asNumber(answer['n']) };
    }
    const answer = asRecord(await this.#ask('add', { ...naming(session), ...members }));
    return { sessionId: asText(answer['session_id']), n: asNumber(answer['n']) };
  }

  /** Waits until everything is answered; the program ends if nobody else uses it. */
  close(): Promise<void> {
    return this.#place.close();
  }

  async #ask(operation: string, members: Record<string, unknown>): Promise<unknown> {
    this.#place.check();
    const { channel } = this.#place;
    if (channel instanceof Http) {
      return channel.call({ method: 'GET', path: operation, query: members, repeatable: true });
    }
    return (await channel.request({ operation, members: plain(members), repeatable: true })).ok;
  }

  /** Which session it is; a key may get one if it has none. */
  async #idOf(http: Http, session: SessionReference, otherwise?: 'create'): Promise<string> {
    if (session.sessionId !== undefined) {
      return session.sessionId;
    }
    const { key } = session;
    const find = async (): Promise<string | undefined> => {
      let cursor: string | undefined;
      do {
        const page = asRecord(await http.call({ method: 'GET', path: 'sessions', query: { key, limit: 1, cursor }, repeatable: true }));
        const found = asList(page['sessions'])[0];
        if (found !== undefined) {
          return asText(asRecord(found)['id']);
        }
        // A server that has looked through many answers with an empty page, and says where it goes on.
        const { next } = page;
        cursor = typeof next === 'string' ? next : undefined;
      } while (cursor !== undefined);
      return undefined;
    };
    // Whether a session was made is not known if the connection breaks: it is looked for before another one is.
    return retrying(async () => {
      const id = await find();
      if (id !== undefined) {
        return id;
      }
      if (otherwise === undefined) {
        throw new UnforgetError('not_found', `there is no session with the key ${key}`);
      }
      const body = JSON.stringify({ key });
      return asText(asRecord(await http.call({ method: 'POST', path: 'sessions', body, repeatable: false }))['id']);
    });
  }
}

function naming(session: SessionReference): Record<string, unknown> {
  return session.sessionId === undefined ? { key: session.key } : { session_id: session.sessionId };
}

/** Members as JSON has them. */
function plain(members: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}
