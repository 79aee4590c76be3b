/**
 * A child that dies at the worst moment: what was acknowledged is there, once, in order, with and without uuids.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import type { SessionStoreEntry } from 'unforget';

import type { Loss, Plan } from './lossy.js';
import { needsProgram, PROGRAM, Scene } from './scene.js';

const LOSSY = fileURLToPath(new URL('lossy.js', import.meta.url));

/** The program that loses things, and how often each kind of request came. */
function lossy(scene: Scene, losses: Loss[]): { binary: string; asked: (loss: number) => number } {
  const text = JSON.stringify({ program: PROGRAM, folder: scene.folder, losses } satisfies Plan);
  const binary = scene.named('lossy', `export LOSSY_PLAN='${text}'\nexec '${process.execPath}' '${LOSSY}' "$@"`);
  return { binary, asked: (loss) => readFileSync(join(scene.folder, `loss-${loss}`), 'utf8').length };
}

/** Some entries without a uuid, also the same one several times, among some with one. */
const BATCH: SessionStoreEntry[] = [
  { type: 'mode', mode: 'normal' },
  { type: 'user', uuid: 'a', text: 'x' },
  { type: 'mode', mode: 'normal' },
  { type: 'user', uuid: 'b', text: 'x' },
  { type: 'title', title: 'T' },
  { type: 'mode', mode: 'normal' },
];
const KEY = { projectKey: 'shop', sessionId: 'visit' };

describe('a child that dies', { skip: needsProgram }, () => {
  for (const when of ['before', 'after', 'half', 'refused'] as const) {
    for (const [what, earlier] of [['a new session', []], ['a session that ends alike', [{ type: 'title', title: 'T' }, { type: 'mode', mode: 'normal' }]]] as const) {
      test(`an append is lost (${when}) in ${what}`, async (context) => {
        const scene = new Scene(context);
        if (earlier.length > 0) {
          await scene.open(scene.local({})).append(KEY, [...earlier]);
        }
        const { binary, asked } = lossy(scene, [{ operation: 'append', when, times: 2 }]);
        const store = scene.open(scene.local({ binary }));
        await store.append(KEY, BATCH);
        await store.append(KEY, [{ type: 'mode', mode: 'normal' }]);
        assert.ok(asked(0) >= 3);
        assert.deepEqual(await store.load(KEY), [...earlier, ...BATCH, { type: 'mode', mode: 'normal' }]);
      });
    }
  }

  for (const operation of ['read', 'delete', 'list_sessions', 'list_session_summaries', 'list_subkeys', 'hello']) {
    test(`${operation} is asked again`, async (context) => {
      const scene = new Scene(context);
      const { binary, asked } = lossy(scene, [{ operation, when: operation === 'hello' ? 'before' : 'after', times: 2 }]);
      const store = scene.open(scene.local({ binary }));
      const other = { ...KEY, sessionId: 'other' };
      await store.append(KEY, [{ type: 'x' }]);
      await store.append({ ...KEY, subpath: 'subagents/a' }, [{ type: 'x' }]);
      await store.append(other, [{ type: 'y' }]);
      assert.deepEqual((await store.listSessions('shop')).map((it) => it.sessionId).sort(), ['other', 'visit']);
      assert.equal((await store.listSessionSummaries('shop')).length, 2);
      assert.deepEqual(await store.listSubkeys(KEY), ['subagents/a']);
      assert.deepEqual(await store.load(KEY), [{ type: 'x' }]);
      await store.delete(KEY);
      assert.equal(await store.load(KEY), null);
      assert.deepEqual(await store.load(other), [{ type: 'y' }]);
      assert.ok(asked(0) >= 3);
    });
  }

  test('what is refused again and again is given up', async (context) => {
    const scene = new Scene(context);
    const { binary, asked } = lossy(scene, [{ operation: 'append', when: 'refused', times: 1_000 }]);
    const store = scene.open(scene.local({ binary }));
    await assert.rejects(store.append(KEY, [{ type: 'user', uuid: '1' }]), { name: 'UnforgetError', code: 'unavailable' });
    assert.equal(asked(0), 6);
  });

  test('what dies again and again is given up', async (context) => {
    const scene = new Scene(context);
    const { binary, asked } = lossy(scene, [{ operation: 'list_subkeys', when: 'before', times: 1_000 }]);
    const store = scene.open(scene.local({ binary }));
    await assert.rejects(store.listSubkeys(KEY), { name: 'UnforgetError', code: 'lost' });
    assert.equal(asked(0), 6);
    assert.equal(await store.load(KEY), null);
  });

  test('an append that failed is not doubled when the caller repeats it', async (context) => {
    const scene = new Scene(context);
    // The first look at what is there succeeds; those after the append that was carried out and not answered do not.
    const { binary, asked } = lossy(scene, [
      { operation: 'append', when: 'after', times: 1 },
      { operation: 'read', when: 'refused', spared: 1, times: 6 },
    ]);
    const store = scene.open(scene.local({ binary }));
    const batch = [{ type: 'mode' }, { type: 'user', uuid: '1' }, { type: 'mode' }];
    await assert.rejects(store.append(KEY, batch), { name: 'UnforgetError', code: 'unavailable' });
    assert.equal(asked(1), 7);
    await store.append(KEY, batch);
    assert.deepEqual(await store.load(KEY), batch);
    await store.append(KEY, batch);
    assert.deepEqual(await store.load(KEY), [...batch, { type: 'mode' }, { type: 'mode' }]);
  });

  test('a doubt outlives a look and a refusal', async (context) => {
    const scene = new Scene(context);
    // It is kept and not answered; then it is looked for and found, and what is left of it is refused until it is given up.
    const { binary, asked } = lossy(scene, [
      { operation: 'append', when: 'after', times: 1 },
      { operation: 'append', when: 'refused', spared: 1, times: 5 },
    ]);
    const store = scene.open(scene.local({ binary }));
    const batch = [{ type: 'mode' }, { type: 'user', uuid: '1' }];
    await assert.rejects(store.append(KEY, batch), { name: 'UnforgetError', code: 'unavailable' });
    assert.equal(asked(0), 6);
    await store.append(KEY, batch);
    assert.deepEqual(await store.load(KEY), batch);
  });

  test('another append after one that failed is appended, however alike they are', async (context) => {
    const scene = new Scene(context);
    const { binary } = lossy(scene, [
      { operation: 'append', when: 'after', times: 1 },
      { operation: 'read', when: 'refused', spared: 1, times: 6 },
    ]);
    const store = scene.open(scene.local({ binary }));
    await assert.rejects(store.append(KEY, [{ type: 'mode' }]), { code: 'unavailable' });
    await store.append(KEY, [{ type: 'mode' }, { type: 'mode' }]);
    assert.deepEqual(await store.load(KEY), [{ type: 'mode' }, { type: 'mode' }, { type: 'mode' }]);
  });
});
