/**
 * What goes wrong, with a code for programs and words for people.
 */

/**
 * Why something failed.
 *
 * The store's own codes: `invalid`, `busy`, `unavailable`, `timeout`, `too_many`, `not_found`, `conflict`, `too_large`, `storage`, `internal`; a server
 * has some more, such as `unauthenticated`. This package's own:
 *
 * - `missing_program`: the program `unforget` was not found, or cannot be run;
 * - `protocol`: whoever answers does not speak this protocol;
 * - `lost`: the connection broke, and trying again did not help; it is not known whether the request was carried out;
 * - `closed`: it was asked after `close()`.
 */
export type UnforgetErrorCode =
  | 'invalid'
  | 'busy'
  | 'unavailable'
  | 'timeout'
  | 'too_many'
  | 'not_found'
  | 'conflict'
  | 'too_large'
  | 'storage'
  | 'internal'
  | 'unauthenticated'
  | 'forbidden'
  | 'method_not_allowed'
  | 'unsupported_media'
  | 'moved'
  | 'model'
  | 'missing_program'
  | 'protocol'
  | 'lost'
  | 'closed'
  | (string & {});

/** Every error that this package throws by itself. */
export class UnforgetError extends Error {
  /** Why, for programs. */
  readonly code: UnforgetErrorCode;

  constructor(code: UnforgetErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'UnforgetError';
    this.code = code;
  }
}

const TRANSIENT: ReadonlySet<string> = new Set(['busy', 'unavailable', 'timeout', 'too_many', 'moved', 'lost']);

/** Whether the same request may succeed a little later. */
export function isTransient(error: unknown): error is UnforgetError {
  return error instanceof UnforgetError && TRANSIENT.has(error.code);
}
