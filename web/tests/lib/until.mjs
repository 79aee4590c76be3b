// Waiting for something to come about. There is no other way to wait in these tests: time alone proves nothing.

import { setTimeout as pause } from 'node:timers/promises';

/** Longer than anything should take, and only waited for if something hangs. */
export const patience = Number(process.env.UNFORGET_PATIENCE ?? 180_000);
const look = 20;

/**
 * Waits until a function returns something truthy, and returns that. What it throws counts as "not yet"; the last of it is told in the end.
 */
export async function until(what, isSo, { within = patience } = {}) {
  const deadline = Date.now() + within;
  let problem;
  for (;;) {
    try {
      const found = await isSo();
      if (found) return found;
      problem = undefined;
    } catch (error) {
      problem = error;
    }
    if (Date.now() > deadline) {
      throw new Error(`not within ${within} ms: ${what}${problem ? ` (${problem.message ?? problem})` : ''}`);
    }
    await pause(look);
  }
}
