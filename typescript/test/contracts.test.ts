/**
 * The thirteen contracts of the TypeScript SDK's session stores, named as there.
 */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { Scene } from './scene.js';

const entry = (type: string, more: Record<string, unknown> = {}): { type: string; [member: string]: unknown } => ({ type, ...more });

describe('contracts of the SDK', () => {
  test('1. append then load returns same entries in same order', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    const entries = [entry('second', { count: 2, inner: { list: [1, [2, { three: null }]] } }), entry('first', { flag: false })];
    await store.append(key, entries);
    assert.deepEqual(await store.load(key), entries);
  });

  test('2. load unknown key returns null', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    assert.equal(await store.load(key), null);
    assert.equal(await store.load({ ...key, subpath: 'subagents/one' }), null);
    await store.append(key, [entry('main')]);
    assert.equal(await store.load({ ...key, subpath: 'subagents/one' }), null);
    assert.equal(await store.load({ ...key, sessionId: 'another' }), null);
  });

  test('3. multiple append calls preserve call order', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    const batches = [[entry('d')], [entry('c'), entry('b')], [entry('a')]];
    for (const batch of batches) {
      await store.append(key, batch);
    }
    assert.deepEqual(await store.load(key), batches.flat());
  });

  test('4. append([]) is a no-op', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    await store.append(key, []);
    assert.equal(await store.load(key), null);
    assert.deepEqual(await store.listSessions(key.projectKey), []);
    await store.append(key, [entry('only')]);
    await store.append(key, []);
    assert.deepEqual(await store.load(key), [entry('only')]);
  });

  test('5. subpath keys are stored independently of main', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    const beneath = { ...key, subpath: 'subagents/agent-7' };
    await store.append(beneath, [entry('sub', { n: 1 })]);
    await store.append(key, [entry('main')]);
    await store.append(beneath, [entry('sub', { n: 2 })]);
    assert.deepEqual(await store.load(key), [entry('main')]);
    assert.deepEqual(await store.load(beneath), [entry('sub', { n: 1 }), entry('sub', { n: 2 })]);
  });

  test('6. projectKey isolation', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const here = { projectKey: scene.project('here'), sessionId: 'same' };
    const there = { projectKey: scene.project('there'), sessionId: 'same' };
    await store.append(here, [entry('of here')]);
    await store.append(there, [entry('of there')]);
    assert.deepEqual(await store.load(here), [entry('of here')]);
    assert.deepEqual(await store.load(there), [entry('of there')]);
    assert.deepEqual((await store.listSessions(here.projectKey)).map((it) => it.sessionId), ['same']);
  });

  test('7. listSessions returns sessionIds for project', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const [mine, other] = [scene.project('mine'), scene.project('other')];
    const before = Date.now();
    await store.append({ projectKey: mine, sessionId: 'one' }, [entry('x')]);
    await store.append({ projectKey: mine, sessionId: 'two' }, [entry('x')]);
    await store.append({ projectKey: other, sessionId: 'three' }, [entry('x')]);
    const listed = await store.listSessions(mine);
    assert.deepEqual(listed.map((it) => it.sessionId).sort(), ['one', 'two']);
    for (const { mtime } of listed) {
      assert.ok(Number.isInteger(mtime), `${mtime} is whole`);
      assert.ok(mtime >= before - 60_000 && mtime <= Date.now() + 60_000, `${mtime} is about now, in milliseconds`);
    }
    assert.deepEqual(await store.listSessions(scene.project('never')), []);
  });

  test('8. listSessions excludes subagent subpaths', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const projectKey = scene.project('shop');
    await store.append({ projectKey, sessionId: 'beneath only', subpath: 'subagents/a' }, [entry('x')]);
    await store.append({ projectKey, sessionId: 'both', subpath: 'subagents/a' }, [entry('x')]);
    await store.append({ projectKey, sessionId: 'both' }, [entry('x')]);
    assert.deepEqual((await store.listSessions(projectKey)).map((it) => it.sessionId), ['both']);
  });

  test('9. delete main then load returns null', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    await store.append(key, [entry('gone')]);
    await store.delete(key);
    assert.equal(await store.load(key), null);
    assert.deepEqual(await store.listSessions(key.projectKey), []);
    await store.delete({ projectKey: scene.project('never'), sessionId: 'never' });
    await store.append(key, [entry('anew')]);
    assert.deepEqual(await store.load(key), [entry('anew')]);
  });

  test('10. delete main cascades to subkeys', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    const others = [
      { ...key, sessionId: 'visitor' },
      { ...key, sessionId: 'other', subpath: 'subagents/a' },
      { ...key, projectKey: scene.project('shop 2') },
    ];
    const subpaths = ['subagents/a', 'subagents/b'];
    await store.append(key, [entry('main')]);
    for (const subpath of subpaths) {
      await store.append({ ...key, subpath }, [entry(subpath)]);
    }
    for (const other of others) {
      await store.append(other, [entry('stays')]);
    }
    await store.delete(key);
    assert.equal(await store.load(key), null);
    for (const subpath of subpaths) {
      assert.equal(await store.load({ ...key, subpath }), null);
    }
    assert.deepEqual(await store.listSubkeys(key), []);
    for (const other of others) {
      assert.deepEqual(await store.load(other), [entry('stays')]);
    }
  });

  test('11. delete with subpath removes only that subkey', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    await store.append(key, [entry('main')]);
    await store.append({ ...key, subpath: 'subagents/a' }, [entry('a')]);
    await store.append({ ...key, subpath: 'subagents/ab' }, [entry('ab')]);
    await store.delete({ ...key, subpath: 'subagents/a' });
    assert.deepEqual(await store.load(key), [entry('main')]);
    assert.equal(await store.load({ ...key, subpath: 'subagents/a' }), null);
    assert.deepEqual(await store.load({ ...key, subpath: 'subagents/ab' }), [entry('ab')]);
    assert.deepEqual(await store.listSubkeys(key), ['subagents/ab']);
  });

  test('12. listSubkeys returns subpaths for the session', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    for (const subpath of ['subagents/b', 'subagents/a', 'subagents/b']) {
      await store.append({ ...key, subpath }, [entry('x')]);
    }
    await store.append({ ...key, sessionId: 'another', subpath: 'subagents/c' }, [entry('x')]);
    await store.append({ ...key, projectKey: scene.project('another'), subpath: 'subagents/d' }, [entry('x')]);
    assert.deepEqual((await store.listSubkeys(key)).sort(), ['subagents/a', 'subagents/b']);
  });

  test('13. listSubkeys excludes main transcript', async (context) => {
    const scene = new Scene(context);
    const store = scene.store();
    const key = { projectKey: scene.project('shop'), sessionId: 'visit' };
    await store.append(key, [entry('main')]);
    assert.deepEqual(await store.listSubkeys(key), []);
    assert.deepEqual(await store.listSubkeys({ ...key, sessionId: 'never' }), []);
  });
});
