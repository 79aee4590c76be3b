/**
 * How often something is tried, and how long is waited in between.
 */

import { isTransient } from './errors.js';

/** How often something is tried at the most. */
export const ATTEMPTS = 6;

/** After this time nothing is tried again: whoever asked does not wait for ever either. */
const PATIENCE_MS = 45_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;

/** How long to wait after so many failures in a row: longer each time, and never quite the same. */
export function pauseAfter(failures: number): number {
  const pause = Math.min(FIRST_PAUSE_MS * 2 ** Math.max(failures - 1, 0), LONGEST_PAUSE_MS);
  return pause * (0.5 + Math.random() / 2);
}

/** Waits; the process stays alive meanwhile. */
export function wait(milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
  });
}

/** Wraps an error after which nothing is to be tried again. */
export class GaveUp {
  constructor(readonly error: unknown) {}
}

/**
 * Tries until it succeeds, fails for good, or was tried often or long enough.
 *
 * @param attempt - is told how often it failed before
 */
export async function retrying<T>(attempt: (failures: number) => Promise<T>): Promise<T> {
  const start = Date.now();
  for (let failures = 0; ; failures += 1) {
    try {
      return await attempt(failures);
    } catch (error) {
      if (error instanceof GaveUp) {
        throw error.error;
      }
      if (!isTransient(error) || failures + 1 >= ATTEMPTS || Date.now() - start > PATIENCE_MS) {
        throw error;
      }
      await wait(pauseAfter(failures + 1));
    }
  }
}
