/**
 * What the conversations of the program itself look like. Names and meaning are those of the server's interface.
 */

/** Which session: by its id, or by its key. */
export type SessionReference =
  | { readonly sessionId: string; readonly key?: undefined }
  | { readonly key: string; readonly sessionId?: undefined };

/** A point in time: a `Date`, or a text such as `2026-01-31T12:00:00Z`. */
export type Moment = Date | string;

/** Which sessions, and in which order. */
export interface ListOptions {
  /** How many are fetched at a time. */
  readonly limit?: number | undefined;
  readonly sort?: 'updated' | 'created' | 'title' | 'turns' | 'tokens' | 'bytes' | undefined;
  readonly agent?: string | undefined;
  readonly channel?: string | undefined;
  readonly peer?: string | undefined;
  readonly key?: string | undefined;
  readonly label?: string | undefined;
  readonly state?: 'ok' | 'live' | 'damaged' | 'missing' | 'mismatch' | 'unreadable' | 'deleted' | undefined;
  /** Whether it is kept for ever. */
  readonly pinned?: boolean | undefined;
  readonly since?: Moment | undefined;
  readonly until?: Moment | undefined;
  /** Part of the title or label. */
  readonly q?: string | undefined;
  /** Those in the trash instead. */
  readonly deleted?: boolean | undefined;
}

/** Where to search. */
export interface SearchOptions {
  readonly limit?: number | undefined;
  readonly agent?: string | undefined;
  readonly channel?: string | undefined;
  readonly peer?: string | undefined;
  /** A pattern on keys: `main:cli:*`. */
  readonly key?: string | undefined;
  /** One or several, with commas between them: `user,assistant`. */
  readonly role?: string | undefined;
  readonly tool?: string | undefined;
  readonly since?: Moment | undefined;
  readonly until?: Moment | undefined;
  /** Whether the trash is searched, too. */
  readonly trash?: boolean | undefined;
}

/** A session. */
export interface SessionDescription {
  readonly id: string;
  readonly key: string | null;
  readonly label: string | null;
  readonly title: string | null;
  readonly created: string | null;
  readonly updated: string | null;
  readonly turns: number;
  readonly records: number;
  readonly tokens: number;
  /** Dollars; null if a model of it has no price. */
  readonly cost_usd: number | null;
  readonly model: string | null;
  /** The record that the conversation goes on from. */
  readonly head: number | null;
  /** How long it is kept: `30d`, `never`; null for what the settings say. */
  readonly expires: string | null;
  /** Whether a person keeps it at the top of the list. */
  readonly pinned: boolean;
  readonly bytes: number;
  /** How many places are damaged. */
  readonly damage: number;
  readonly state: 'ok' | 'missing' | 'mismatch' | 'unreadable' | 'deleted';
  /** Whether the server uses it, or another program writes it. */
  readonly live: boolean;
  /** Whether a turn is running or waiting. */
  readonly busy: boolean;
  readonly viewers: number;
  readonly [member: string]: unknown;
}

/** Something that was said. */
export interface Hit {
  readonly session: string;
  readonly key: string | null;
  readonly title: string | null;
  readonly n: number;
  readonly offset: number;
  readonly at: string | null;
  readonly role: 'user' | 'assistant' | 'tool_use' | 'tool_result' | 'summary' | 'title' | 'label';
  readonly tool: string | null;
  readonly trashed: boolean;
  /** Whether the conversation went on from before it. */
  readonly abandoned: boolean;
  readonly tokens: number;
  readonly snippet: string;
  /** What of the snippet matched: from and to, in bytes of UTF-8. */
  readonly marks: readonly (readonly [number, number])[];
  readonly [member: string]: unknown;
}

/** What a search found, the best first. */
export interface Found {
  readonly hits: readonly Hit[];
  readonly more: boolean;
  /** Transcripts that could not be read. */
  readonly unreadable: number;
}

/** A message in the form of the Messages API; results of tools are blocks of a message of the user. */
export interface Message {
  readonly role: 'user' | 'assistant';
  readonly content: string | readonly object[];
}

/** What had to be put right so that a model accepts it. */
export interface Repair {
  readonly n: number;
  readonly kind: string;
  readonly message: string;
}

/** A place of a transcript that is not as a writer leaves it. */
export interface Note {
  readonly offset: number;
  readonly bytes: number;
  /** The line of the file, counted from 1; null if the reader did not begin at the beginning. */
  readonly line: number | null;
  readonly kind: string;
  readonly message: string;
}

/** A conversation as it would be sent to a model. */
export interface History {
  readonly sessionId: string;
  readonly messages: readonly Message[];
  readonly system: string | readonly unknown[] | null;
  readonly tools: readonly unknown[] | null;
  readonly model: string | null;
  readonly repairs: readonly Repair[];
  /** What of it could not be read. */
  readonly damage: readonly Note[];
  /** What is strange, though everything was read. */
  readonly oddities: readonly Note[];
}
