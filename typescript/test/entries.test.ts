/**
 * What the SDK's contracts leave open: idempotency, order, odd keys, what of an entry survives, summaries, large sessions.
 */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { foldSessionSummary, type SessionStoreEntry } from '@anthropic-ai/claude-agent-sdk';
import { UnforgetError } from 'unforget';

import { Scene } from './scene.js';

const MEGABYTE = 1_000_000;

describe('entries', () => {
  test('an entry with a uuid is kept once, also within one batch, and others each time', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    const batch = [{ type: 'user', uuid: 'one' }, { type: 'mode' }, { type: 'user', uuid: 'one' }, { type: 'user', uuid: '' }];
    await store.append(key, batch);
    await store.append(key, [{ type: 'user', uuid: 'two' }, ...batch]);
    const expected = [batch[0], batch[1], batch[3], { type: 'user', uuid: 'two' }, batch[1], batch[3]];
    assert.deepEqual(await store.load(key), expected);
  });

  test('a uuid means something within one key only', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    const keys = [key, { ...key, sessionId: 'fork' }, { ...key, subpath: 'subagents/a' }, { ...key, projectKey: scene.project('other') }];
    for (const one of keys) {
      await store.append(one, [{ type: 'user', uuid: 'same' }]);
    }
    for (const one of keys) {
      assert.deepEqual(await store.load(one), [{ type: 'user', uuid: 'same' }]);
    }
  });

  test('appends that nobody waits for keep their order, and a load sees them', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    const entries = Array.from({ length: 50 }, (_, n) => (n % 2 === 0 ? { type: 'bare', n } : { type: 'marked', uuid: `${n}`, n }));
    const appended = entries.map((entry) => store.append(key, [entry]));
    assert.deepEqual(await store.load(key), entries);
    await Promise.all(appended);
  });

  test('deleting comes after what was asked before, and before what was asked later', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    const beneath = { ...key, subpath: 'subagents/a' };
    await Promise.all([
      store.append(key, [{ type: 'before' }]),
      store.append(beneath, [{ type: 'before' }]),
      store.delete(key),
      store.append(beneath, [{ type: 'after' }]),
    ]);
    assert.equal(await store.load(key), null);
    assert.deepEqual(await store.load(beneath), [{ type: 'after' }]);
  });

  test('an entry that is changed after append was called is kept as it was', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    const entry = { type: 'user', text: 'before' };
    const appended = store.append(key, [entry]);
    entry.text = 'after';
    await appended;
    assert.deepEqual(await store.load(key), [{ type: 'user', text: 'before' }]);
  });

  test('entries come back verbatim, as far as JavaScript can say them', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    // `1.0` and numbers beyond 2^53 are changed by JSON.parse before this package sees them, and -0 by JSON.stringify: no package can help that.
    const texts = [
      '{"type":"order","z":1,"a":{"y":[],"b":{}},"m":null}',
      '{"type":"numbers","list":[1e+21,1e-7,0.1,5e-324,1.7976931348623157e+308,-1,9007199254740991]}',
      '{"type":"text","list":["\\u0000\\u001f\\"\\\\/","\\n\\r\\t\u2028\u2029","ä€😀","\\ud800","\\udc00 alone","e\u0301"]}',
      '{"type":"names","":1,"__proto__":{"x":1},"constructor":2,"toJSON":3,"uuid\\u0000":"4"}',
      `{"type":"deep","deep":${'['.repeat(100)}${']'.repeat(100)}}`,
    ];
    const entries = texts.map((text) => JSON.parse(text) as SessionStoreEntry);
    assert.deepEqual(entries.map((entry) => JSON.stringify(entry)), texts);
    await store.append(key, entries);
    const loaded = await store.load(key);
    assert.deepEqual(loaded?.map((entry) => JSON.stringify(entry)), texts);
  });

  test('something that is no entry is refused before anything is appended', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    for (const wrong of [null, 'text', 7, ['list'], undefined]) {
      const batch = [{ type: 'right' }, wrong as unknown as SessionStoreEntry];
      await assert.rejects(store.append(key, batch), { name: 'UnforgetError', code: 'invalid' });
    }
    assert.equal(await store.load(key), null);
  });

  test('odd keys are all different, and come back as they are', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const projectKey = scene.project('shop');
    const names = [
      'plain', 'Plain', ' plain', 'plain ', '.', '..', '../plain', '/', '\\', 'a/b', 'a%2Fb', 'a\\b', 'CON', 'nul.txt', '~', '*', '?', '"', "'", '$HOME', '`id`',
      '-rf', '--home', 'null', '😀', '👩‍👩‍👧', 'e\u0301', '\u00e9', '\u202e', '\u00a0', '日本語', '%', '%00', ':', '|', '<>', '#', '&', 'a'.repeat(4096),
      '😀'.repeat(1024),
    ];
    await Promise.all(names.map((name) => store.append({ projectKey, sessionId: name }, [{ type: 'session', name }])));
    await Promise.all(names.map((name) => store.append({ projectKey, sessionId: 'all', subpath: name }, [{ type: 'beneath', name }])));
    for (const name of names) {
      assert.deepEqual(await store.load({ projectKey, sessionId: name }), [{ type: 'session', name }]);
      assert.deepEqual(await store.load({ projectKey, sessionId: 'all', subpath: name }), [{ type: 'beneath', name }]);
    }
    assert.deepEqual((await store.listSessions(projectKey)).map((it) => it.sessionId).sort(), [...names].sort());
    assert.deepEqual((await store.listSubkeys({ projectKey, sessionId: 'all' })).sort(), [...names].sort());
    const odd = scene.project('emoji😀/..\\');
    await store.append({ projectKey: odd, sessionId: '😀' }, [{ type: 'x' }]);
    assert.deepEqual((await store.listSessions(odd)).map((it) => it.sessionId), ['😀']);
  });

  test('keys that are no keys are refused', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    const wrong = [
      { ...key, projectKey: '' },
      { ...key, sessionId: '' },
      { ...key, subpath: '' },
      { ...key, sessionId: 'a\nb' },
      { ...key, sessionId: 'a\u0000b' },
      { ...key, subpath: 'a'.repeat(4097) },
    ];
    for (const one of wrong) {
      await assert.rejects(store.append(one, [{ type: 'x' }]), (error) => error instanceof UnforgetError && error.code === 'invalid');
    }
    assert.equal(await store.load(key), null);
  });

  test('summaries are those that the SDK would make', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    const said = { cwd: '/projects/shop', gitBranch: 'main', timestamp: '2026-01-02T03:04:05.678Z', isSidechain: false };
    const entries: SessionStoreEntry[] = [
      { type: 'queue-operation', operation: 'enqueue', timestamp: '2026-01-02T03:04:05.000Z' },
      { type: 'user', uuid: '1', ...said, isMeta: true, message: { role: 'user', content: 'not said by a person' } },
      { type: 'user', uuid: '2', ...said, message: { role: 'user', content: '<command-name>/clear</command-name>' } },
      { type: 'user', uuid: '3', ...said, message: { role: 'user', content: [{ type: 'text', text: 'Which\nshoes? 👟' }] } },
      { type: 'assistant', uuid: '4', ...said, gitBranch: 'shoes', message: { role: 'assistant', content: [{ type: 'text', text: 'Red.' }] } },
      { type: 'ai-title', aiTitle: 'Shoes' },
      { type: 'custom-title', customTitle: 'Red shoes' },
      { type: 'last-prompt', lastPrompt: 'Which shoes?' },
      { type: 'summary', summary: 'About shoes' },
      { type: 'tag', tag: 'shopping' },
    ];
    await store.append(key, entries.slice(0, 4));
    await store.append(key, entries.slice(4));
    await store.append({ ...key, subpath: 'subagents/a' }, [{ type: 'custom-title', customTitle: 'Wrong' }]);
    const [summary, ...others] = await store.listSessionSummaries(key.projectKey);
    const [listed] = await store.listSessions(key.projectKey);
    assert.deepEqual(others, []);
    assert.deepEqual(summary?.data, foldSessionSummary(undefined, key, entries).data);
    assert.equal(summary?.sessionId, 'visit');
    assert.ok(summary.mtime >= (listed?.mtime ?? Number.NaN));
    await store.append(key, [{ type: 'tag', tag: '' }, { type: 'relocated', relocatedCwd: '/projects/other' }]);
    const moved = foldSessionSummary(undefined, key, [...entries, { type: 'tag', tag: '' }, { type: 'relocated', relocatedCwd: '/projects/other' }]);
    assert.deepEqual((await store.listSessionSummaries(key.projectKey))[0]?.data, moved.data);
    assert.deepEqual(await store.listSessionSummaries(scene.project('never')), []);
    await store.delete(key);
    assert.deepEqual(await store.listSessionSummaries(key.projectKey), []);
  });

  test('with a project, a session is found from any folder', async (context) => {
    const scene = new Scene(context);
    const project = scene.project('one for all');
    const writer = scene.store({ project });
    const reader = scene.store({ project });
    const plain = scene.store();
    const entries = [{ type: 'user', uuid: '1' }];
    await writer.append({ projectKey: '-home-alice-app', sessionId: 'visit' }, entries);
    await writer.append({ projectKey: '-home-alice-app', sessionId: 'visit', subpath: 'subagents/a' }, entries);
    const elsewhere = { projectKey: '-home-bob-app', sessionId: 'visit' };
    assert.deepEqual(await reader.load(elsewhere), entries);
    assert.deepEqual((await reader.listSessions('-home-bob-app')).map((it) => it.sessionId), ['visit']);
    assert.deepEqual((await reader.listSessionSummaries('-home-bob-app')).map((it) => it.sessionId), ['visit']);
    assert.deepEqual(await reader.listSubkeys(elsewhere), ['subagents/a']);
    assert.deepEqual(await plain.load({ projectKey: project, sessionId: 'visit' }), entries);
    await reader.delete(elsewhere);
    assert.equal(await writer.load({ projectKey: '-home-alice-app', sessionId: 'visit' }), null);
  });

  test('a session of 100 megabytes comes back whole', { timeout: 900_000 }, async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'large' };
    const large = (n: number, length: number): SessionStoreEntry => ({ type: 'user', uuid: `${n}`, text: `${n} ä `.padEnd(length, 'x') });
    // One batch of many entries, one of an entry that is large by itself, and one of both kinds of entries.
    const batches = [
      Array.from({ length: 50 }, (_, n) => large(n, MEGABYTE)),
      [large(50, 30 * MEGABYTE)],
      Array.from({ length: 20_000 }, (_, n) => (n % 2 === 0 ? large(51 + n, 1_000) : { type: 'bare', n, text: 'y'.repeat(1_000) })),
    ];
    for (const batch of batches) {
      await store.append(key, batch);
    }
    const loaded = await store.load(key);
    assert.equal(loaded?.length, 20_051);
    // Compared one by one: what differs would be 100 megabytes to print.
    const wrong = batches.flat().findIndex((entry, at) => JSON.stringify(entry) !== JSON.stringify(loaded[at]));
    assert.equal(wrong, -1);
  });
});
