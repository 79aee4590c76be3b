/**
 * A session store for the Claude Agent SDK.
 *
 * The types have the SDK's shape; the SDK itself is not needed here.
 */

import { Place, type PlaceOptions } from './place.js';
import { asList, asNumber, asRecord, asText, type WireKey } from './wire.js';

/** How many different warnings a store gives at the most. */
const WARNINGS = 100;

/** Which transcript: that of a session, or with `subpath` one beneath it, such as a sub-agent's. */
export interface SessionKey {
  projectKey: string;
  sessionId: string;
  subpath?: string;
}

/** One line of a transcript. */
export interface SessionStoreEntry {
  type: string;
  uuid?: string;
  timestamp?: string;
  [member: string]: unknown;
}

/** A session in a list; `mtime` is in milliseconds since 1970. */
export interface SessionListEntry {
  sessionId: string;
  mtime: number;
}

/** A session in a list, with what the SDK shows of it. */
export interface SessionSummaryEntry extends SessionListEntry {
  data: Record<string, unknown>;
}

/** Where the store is, and how sessions are found in it. */
export type SessionStoreOptions = PlaceOptions & {
  /**
   * The project that all sessions belong to, whatever folder the agent works in.
   *
   * Without it the SDK names the project after the folder, and a session is found in the same folder only.
   */
  readonly project?: string | undefined;
};

/**
 * Keeps the sessions of the Claude Agent SDK: `query({ prompt, options: { sessionStore: store } })`.
 *
 * Entries come back as they were appended, in order, each once: one with a `uuid` that is there already is not appended again, and one without is not doubled
 * by trying again.
 */
export class UnforgetSessionStore {
  readonly #place: Place;
  readonly #project: string | undefined;
  readonly #warned = new Set<string>();

  constructor(options: SessionStoreOptions = {}) {
    this.#place = new Place(options, ['project']);
    this.#project = options.project;
  }

  /**
   * Throws if the store cannot be used: the program does not start, the server refuses the token.
   *
   * Without it the first use throws, and the SDK turns that into a `mirror_error` message behind a whole turn.
   */
  connect(): Promise<void> {
    return this.#place.connect();
  }

  /** Appends entries; they are on the disk when this is done, or at the remote if `ack` says so. */
  async append(key: SessionKey, entries: SessionStoreEntry[]): Promise<void> {
    this.#place.check();
    try {
      await this.#place.entries.append(this.#wireKey(key), entries);
    } catch (error) {
      this.#warn(key, error);
      throw error;
    }
  }

  /** All entries, or null if nothing was ever appended. */
  async load(key: SessionKey): Promise<SessionStoreEntry[] | null> {
    this.#place.check();
    return (await this.#place.entries.load(this.#wireKey(key))) as SessionStoreEntry[] | null;
  }

  /** The sessions of a project, in no particular order. */
  async listSessions(projectKey: string): Promise<SessionListEntry[]> {
    const sessions = await this.#list('list_sessions', { project_key: this.#project ?? projectKey });
    return sessions.map(listed);
  }

  /** The sessions of a project with what the SDK shows in a list. */
  async listSessionSummaries(projectKey: string): Promise<SessionSummaryEntry[]> {
    const members = { project_key: this.#project ?? projectKey, spelling: 'typescript' };
    const sessions = await this.#list('list_session_summaries', members);
    return sessions.map((session) => ({ ...listed(session), data: asRecord(asRecord(session)['data']) }));
  }

  /** Deletes a session with everything beneath it, or the one thing that `subpath` names. */
  async delete(key: SessionKey): Promise<void> {
    this.#place.check();
    await this.#place.entries.delete(this.#wireKey(key));
  }

  /** What there is beneath a session. */
  async listSubkeys(key: { projectKey: string; sessionId: string }): Promise<string[]> {
    const { projectKey, sessionId } = key;
    return (await this.#list('list_subkeys', { key: this.#wireKey({ projectKey, sessionId }) })).map(asText);
  }

  /** Waits until everything is answered; the program ends if nobody else uses it. */
  close(): Promise<void> {
    return this.#place.close();
  }

  /** Says on the standard error what the SDK only says in a message of its stream: something was not saved. Each reason once. */
  #warn(key: SessionKey, error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    if (this.#warned.size < WARNINGS && !this.#warned.has(message)) {
      this.#warned.add(message);
      process.emitWarning(`entries of session ${key.sessionId} were not saved: ${message}`, 'UnforgetWarning');
    }
  }

  async #list(operation: string, members: Record<string, unknown>): Promise<unknown[]> {
    this.#place.check();
    return asList((await this.#place.channel.request({ operation, members, repeatable: true })).ok);
  }

  #wireKey(key: SessionKey): WireKey {
    const { projectKey, sessionId, subpath } = key;
    const whole = { project_key: this.#project ?? projectKey, session_id: sessionId };
    return subpath === undefined ? whole : { ...whole, subpath };
  }
}

function listed(session: unknown): SessionListEntry {
  const { session_id: sessionId, mtime } = asRecord(session);
  return { sessionId: asText(sessionId), mtime: asNumber(mtime) };
}
