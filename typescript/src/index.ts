/**
 * Keeps the conversations of agents durably.
 */

export { UnforgetError, type UnforgetErrorCode } from './errors.js';
export type { LocalOptions, PlaceOptions, ServerOptions } from './place.js';
export {
  type SessionKey,
  type SessionListEntry,
  type SessionStoreEntry,
  type SessionStoreOptions,
  type SessionSummaryEntry,
  UnforgetSessionStore,
} from './session-store.js';
export { Sessions } from './sessions.js';
export type {
  Found,
  History,
  Hit,
  ListOptions,
  Message,
  Moment,
  Note,
  Repair,
  SearchOptions,
  SessionDescription,
  SessionReference,
} from './sessions-types.js';
