/**
 * The store behind a server that is slow, busy, cut off or in the way.
 */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import type { SessionStoreEntry } from 'unforget';

import { type Fault, Front } from './front.js';
import { needsProgram, Scene } from './scene.js';

const KEY = { projectKey: 'shop', sessionId: 'visit' };
const MIB = 1024 * 1024;

describe('a server', { skip: needsProgram }, () => {
  test('is told who asks, and asked what a child process is asked', async (context) => {
    const scene = new Scene(context);
    const front = await Front.start(scene);
    const store = scene.open({ url: `${front.url}/`, token: 'secret' });
    const entries = [{ type: 'x', uuid: '1' }, { type: 'y' }];
    await store.append(KEY, entries);
    await store.append({ ...KEY, subpath: 'subagents/a' }, entries);
    assert.deepEqual(await store.load(KEY), entries);
    assert.deepEqual((await store.listSessions('shop')).map((it) => it.sessionId), ['visit']);
    assert.deepEqual((await store.listSessionSummaries('shop')).map((it) => it.data), [{ isSidechain: false }]);
    assert.deepEqual(await store.listSubkeys(KEY), ['subagents/a']);
    await store.delete(KEY);
    assert.equal(await store.load(KEY), null);
    assert.deepEqual([...new Set(front.came.map((it) => it.authorization))], ['Bearer secret']);
  });

  const entries: SessionStoreEntry[] = [{ type: 'mode' }, { type: 'user', uuid: '1' }, { type: 'mode' }];
  for (const fault of ['cut before', 'cut after', 'too many', 'unavailable', 'unavailable after', 'proxy', 'bad gateway'] satisfies Fault[]) {
    test(`that fails (${fault}) is asked again, and nothing is doubled`, async (context) => {
      const scene = new Scene(context);
      const front = await Front.start(scene);
      const store = scene.open({ url: front.url });
      await store.append(KEY, [{ type: 'mode' }]);
      front.faults.push({ path: 'append', fault }, { path: 'append', fault }, { path: 'read', fault }, { path: 'list_sessions', fault });
      await store.append(KEY, entries);
      assert.deepEqual(await store.load(KEY), [{ type: 'mode' }, ...entries]);
      assert.equal((await store.listSessions('shop')).length, 1);
      assert.deepEqual(front.faults, []);
    });
  }

  test('is asked whether it is done with what is there already', async (context) => {
    const scene = new Scene(context);
    const front = await Front.start(scene);
    const store = scene.open({ url: front.url });
    // It may wait for a remote, and only it knows whether that has everything.
    front.faults.push({ path: 'append', fault: 'unavailable after' });
    await store.append(KEY, [{ type: 'mode' }]);
    assert.deepEqual(front.came.map((it) => it.path.split('/').at(-1)), ['read', 'append', 'read', 'append']);
    assert.deepEqual(await store.load(KEY), [{ type: 'mode' }]);
  });

  test('that always fails is given up', async (context) => {
    const scene = new Scene(context);
    const front = await Front.start(scene);
    const store = scene.open({ url: front.url });
    front.faults.push(...Array.from({ length: 100 }, () => ({ path: 'list_sessions', fault: 'unavailable' as const })));
    await assert.rejects(store.listSessions('shop'), { name: 'UnforgetError', code: 'unavailable', message: 'later' });
    assert.equal(front.came.length, 6);
  });

  test('that is not there is told', async (context) => {
    const scene = new Scene(context);
    const store = scene.open({ url: 'http://127.0.0.1:1' });
    await assert.rejects(store.listSessions('shop'), { name: 'UnforgetError', code: 'lost', message: /127\.0\.0\.1:1 did not answer/ });
  });

  test('that refuses is not asked again', async (context) => {
    const scene = new Scene(context);
    const front = await Front.start(scene);
    const store = scene.open({ url: front.url });
    await assert.rejects(store.load({ ...KEY, subpath: '' }), { name: 'UnforgetError', code: 'invalid' });
    assert.equal(front.came.length, 1);
  });

  test('gets large appends in parts below 4 MiB, whatever fails in between', { timeout: 900_000 }, async (context) => {
    const scene = new Scene(context);
    const front = await Front.start(scene);
    const store = scene.open({ url: front.url });
    const large = Array.from({ length: 40 }, (_, n): SessionStoreEntry => {
      const text = 'ä'.repeat(n === 20 ? 3 * MIB : MIB / 8);
      return n % 2 === 0 ? { type: 'x', uuid: `${n}`, text } : { type: 'mode', text };
    });
    front.faults.push(...Array.from({ length: 3 }, () => ({ path: 'append', fault: 'cut after' as const })));
    await store.append(KEY, large);
    const loaded = await store.load(KEY);
    assert.equal(loaded?.length, 40);
    assert.equal(large.findIndex((entry, at) => JSON.stringify(entry) !== JSON.stringify(loaded[at])), -1);
    const sizes = front.came.filter((it) => it.path.endsWith('append')).map((it) => it.bytes);
    assert.ok(sizes.length >= 6, `${sizes.length} requests`);
    assert.deepEqual(sizes.filter((size) => size >= 4 * MIB).length, 1, 'only the entry that is larger by itself');
  });

  test('an append that failed in its middle goes on there when the caller repeats it', { timeout: 900_000 }, async (context) => {
    const scene = new Scene(context);
    const front = await Front.start(scene);
    const store = scene.open({ url: front.url });
    const large = Array.from({ length: 12 }, (_, n): SessionStoreEntry => ({ type: 'mode', n: n % 2, text: 'x'.repeat(MIB) }));
    await store.load(KEY);
    // The first part is kept; the second is kept, too, but nobody is told, and then nothing works any more.
    front.faults.push({ path: 'append', fault: 'unavailable after', spared: 1 });
    front.faults.push(...Array.from({ length: 6 }, () => ({ path: 'read', fault: 'unavailable' as const })));
    await assert.rejects(store.append(KEY, large), { code: 'unavailable' });
    assert.deepEqual(front.faults, []);
    await store.append(KEY, large);
    assert.deepEqual((await store.load(KEY))?.map((entry) => entry['n']), large.map((entry) => entry['n']));
  });
});
