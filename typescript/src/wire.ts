/**
 * What goes over the wire, to a child process or to a server, and comes back.
 */

import { UnforgetError } from './errors.js';

/** The version of the protocol. */
export const PROTOCOL = 1;

/** Which entries. */
export interface WireKey {
  readonly project_key: string;
  readonly session_id: string;
  readonly subpath?: string;
}

/** Something to be done. */
export interface Request {
  readonly operation: string;
  readonly members: Readonly<Record<string, unknown>>;
  /** The texts of the entries of an `append`, which are sent as they are. */
  readonly entries?: readonly string[];
  /**
   * Whether it may be carried out twice. One that may not is never sent again by itself: if the connection breaks, it fails with `lost`.
   */
  readonly repeatable: boolean;
  /** The process of the store that it is for; if that is gone, it fails with `lost`. */
  readonly process?: number | undefined;
}

/** What was answered. */
export interface Answer {
  readonly ok: unknown;
  /** Of an `append`: where the entries are for certain, `disk` or `remote`. */
  readonly durability?: unknown;
}

/** Some way to the store. */
export interface Channel {
  /** How many bytes of entries an `append` may have; a single entry may have more. */
  readonly batchBytes: number;
  /** Whether only the store itself refuses, and nobody on the way there. */
  readonly isDirect: boolean;
  /** Which process of the store answers, if that is known. */
  readonly process: number | undefined;
  /** Has something done, if need be more than once. */
  request(request: Request): Promise<Answer>;
  /** Waits until everything is answered, and closes. */
  close(): Promise<void>;
}

/** A page of entries. */
export interface Page {
  readonly entries: readonly Record<string, unknown>[];
  readonly cursor: string;
  readonly more: boolean;
  readonly again: boolean;
}

/** How many characters are handed over at a time. */
const PIECE_CHARACTERS = 256 * 1024;

/** The JSON text of an object with these members and entries, in pieces of a bounded size. */
export function* pieces(members: Readonly<Record<string, unknown>>, entries?: readonly string[]): Generator<string> {
  const text = JSON.stringify(members);
  if (entries === undefined) {
    yield text;
    return;
  }
  const head = text.slice(0, -1);
  let piece = head === '{' ? '{"entries":[' : `${head},"entries":[`;
  let separator = '';
  for (const entry of entries) {
    piece += separator + entry;
    separator = ',';
    if (piece.length >= PIECE_CHARACTERS) {
      yield piece;
      piece = '';
    }
  }
  yield `${piece}]}`;
}

/** Checks that it is an object. */
export function asRecord(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw unexpected(value);
  }
  return value as Record<string, unknown>;
}

/** Checks that it is a list. */
export function asList(value: unknown): unknown[] {
  if (!Array.isArray(value)) {
    throw unexpected(value);
  }
  return value;
}

/** Checks that it is a text. */
export function asText(value: unknown): string {
  if (typeof value !== 'string') {
    throw unexpected(value);
  }
  return value;
}

/** Checks that it is a number. */
export function asNumber(value: unknown): number {
  if (typeof value !== 'number') {
    throw unexpected(value);
  }
  return value;
}

/** Checks that it is what `read` answers. */
export function asPage(value: unknown): Page {
  const { entries, cursor, more, again } = asRecord(value);
  return {
    entries: asList(entries).map(asRecord),
    cursor: asText(cursor),
    more: more === true,
    again: again === true,
  };
}

function unexpected(value: unknown): UnforgetError {
  const text = JSON.stringify(value) ?? 'nothing';
  return new UnforgetError('protocol', `an answer that is not understood: ${text.slice(0, 200)}`);
}
