/**
 * kill -9 under load: nothing that was acknowledged is missing, doubled or out of order.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { SessionStoreEntry } from 'unforget';

import { needsProgram, Scene } from './scene.js';

const SESSIONS = 64;
const APPENDS = 24;
const KILLS = 6;

test('64 sessions at once, and the program killed again and again', { skip: needsProgram, timeout: 900_000 }, async (context) => {
  const scene = new Scene(context);
  const { binary, processes } = scene.counted();
  const store = scene.open(scene.local({ binary }));
  let acknowledged = 0;
  let killed = 0;
  // The next kill comes when so many more were acknowledged: whatever the machine's speed, it hits in the middle.
  const acknowledge = (): void => {
    acknowledged += 1;
    if (killed < KILLS && acknowledged >= ((killed + 1) * SESSIONS * APPENDS) / (KILLS + 1)) {
      killed += 1;
      process.kill(processes().at(-1) ?? Number.NaN, 'SIGKILL');
    }
  };
  const key = (session: number): { projectKey: string; sessionId: string } => ({ projectKey: 'load', sessionId: `session ${session}` });
  const batch = (session: number, n: number): SessionStoreEntry[] => [
    { type: 'user', uuid: `${session}/${n}`, text: 'x'.repeat(500) },
    // The same each time: only their number tells whether one is missing or doubled.
    { type: 'mode' },
    { type: 'step', n },
  ];
  await Promise.all(
    Array.from({ length: SESSIONS }, async (_, session) => {
      for (let n = 0; n < APPENDS; n += 1) {
        await store.append(key(session), batch(session, n));
        acknowledge();
      }
    }),
  );
  assert.equal(killed, KILLS);
  assert.equal(processes().length, KILLS + 1);
  await store.close();
  const fresh = scene.open(scene.local({ binary }));
  for (let session = 0; session < SESSIONS; session += 1) {
    const expected = Array.from({ length: APPENDS }, (_, n) => batch(session, n)).flat();
    assert.deepEqual(await fresh.load(key(session)), expected);
  }
  assert.equal((await fresh.listSessions('load')).length, SESSIONS);
});
