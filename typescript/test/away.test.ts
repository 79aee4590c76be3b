/**
 * A remote that goes away and comes back.
 */

import assert from 'node:assert/strict';
import { mkdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';

import type { SessionStoreEntry } from 'unforget';

import { needsProgram, Scene } from './scene.js';

const KEY = { projectKey: 'shop', sessionId: 'visit' };
const FIRST: SessionStoreEntry[] = [{ type: 'mode' }, { type: 'user', uuid: '1' }];
const SECOND: SessionStoreEntry[] = [{ type: 'mode' }, { type: 'user', uuid: '2' }, { type: 'mode' }];

/** A remote that is a folder, and so can be taken away. */
class Folder {
  readonly remote: string;
  readonly #path: string;

  constructor(scene: Scene) {
    this.#path = join(scene.folder, 'there');
    this.remote = pathToFileURL(this.#path).href;
    mkdirSync(this.#path);
  }

  goAway(): void {
    renameSync(this.#path, `${this.#path} not`);
  }

  comeBack(): void {
    renameSync(`${this.#path} not`, this.#path);
  }
}

describe('a remote that is away', { skip: needsProgram }, () => {
  test('with ack disk, what is appended is kept here, and sent when it is back', async (context) => {
    const scene = new Scene(context);
    const folder = new Folder(scene);
    const { remote } = folder;
    const store = scene.open(scene.local({ remote, ack: 'disk' }, 'one'));
    await store.append(KEY, FIRST);
    folder.goAway();
    await store.append(KEY, SECOND);
    assert.deepEqual(await store.load(KEY), [...FIRST, ...SECOND]);
    folder.comeBack();
    await store.close();
    assert.deepEqual(await scene.open(scene.local({ remote }, 'other')).load(KEY), [...FIRST, ...SECOND]);
  });

  test('with ack remote, appending fails, and the same call later appends nothing twice', async (context) => {
    const scene = new Scene(context);
    const folder = new Folder(scene);
    const { remote } = folder;
    const store = scene.open(scene.local({ remote, ack: 'remote' }, 'one'));
    await store.append(KEY, FIRST);
    folder.goAway();
    await assert.rejects(store.append(KEY, SECOND), { name: 'UnforgetError', code: 'unavailable' });
    await assert.rejects(store.append(KEY, SECOND), { name: 'UnforgetError', code: 'unavailable' });
    folder.comeBack();
    await store.append(KEY, SECOND);
    assert.deepEqual(await scene.open(scene.local({ remote }, 'other')).load(KEY), [...FIRST, ...SECOND]);
    await store.append(KEY, SECOND);
    assert.deepEqual(await store.load(KEY), [...FIRST, ...SECOND, { type: 'mode' }, { type: 'mode' }]);
  });

  test('with ack remote, what was kept here is not appended twice if the program dies before it is repeated', async (context) => {
    const scene = new Scene(context);
    const folder = new Folder(scene);
    const { remote } = folder;
    const { binary, processes } = scene.counted();
    const store = scene.open(scene.local({ remote, ack: 'remote', binary }, 'one'));
    await store.append(KEY, FIRST);
    folder.goAway();
    await assert.rejects(store.append(KEY, SECOND), { name: 'UnforgetError', code: 'unavailable' });
    process.kill(processes().at(-1) ?? Number.NaN, 'SIGKILL');
    folder.comeBack();
    // It is noticed now, so that what follows is not asked of the one that died.
    await store.listSessions('other');
    assert.equal(processes().length, 2);
    await store.append(KEY, SECOND);
    assert.deepEqual(await scene.open(scene.local({ remote }, 'other')).load(KEY), [...FIRST, ...SECOND]);
  });

  test('with ack disk, a session can begin without it', async (context) => {
    const scene = new Scene(context);
    const folder = new Folder(scene);
    const { remote } = folder;
    const store = scene.open(scene.local({ remote, ack: 'disk' }, 'one'));
    folder.goAway();
    await store.append(KEY, FIRST);
    await store.append(KEY, SECOND);
    assert.deepEqual(await store.load(KEY), [...FIRST, ...SECOND]);
    folder.comeBack();
    await store.close();
    assert.deepEqual(await scene.open(scene.local({ remote }, 'other')).load(KEY), [...FIRST, ...SECOND]);
  });

  test('no answer is not taken for nothing', async (context) => {
    const scene = new Scene(context);
    const folder = new Folder(scene);
    const { remote } = folder;
    await scene.open(scene.local({ remote, ack: 'remote' }, 'one')).append(KEY, FIRST);
    folder.goAway();
    const other = scene.open(scene.local({ remote }, 'other'));
    await assert.rejects(other.load(KEY), { name: 'UnforgetError', code: 'unavailable' });
    await assert.rejects(other.delete(KEY), { name: 'UnforgetError', code: 'unavailable' });
    folder.comeBack();
    assert.deepEqual(await other.load(KEY), FIRST);
  });
});
