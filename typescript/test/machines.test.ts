/**
 * Several machines with one remote.
 */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { Scene } from './scene.js';

const skip = process.env['UNFORGET_TEST_REMOTE'] === undefined && 'there is no remote; everywhere.test.js runs this with one';
const KEY = { projectKey: 'shop', sessionId: 'visit' };

describe('machines', { skip }, () => {
  test('a session goes on on another machine', async (context) => {
    const scene = new Scene(context);
    const [first, second] = ['first', 'second'].map((home) => scene.open(scene.local({ ack: 'remote' }, home)));
    const entries = [{ type: 'user', uuid: '1' }, { type: 'mode' }, { type: 'user', uuid: '2' }];
    await first?.append(KEY, entries);
    await first?.append({ ...KEY, subpath: 'subagents/a' }, entries);
    assert.deepEqual(await second?.load(KEY), entries);
    assert.deepEqual(await second?.listSubkeys(KEY), ['subagents/a']);
    assert.deepEqual((await second?.listSessionSummaries('shop'))?.map((it) => it.sessionId), ['visit']);
    await second?.append(KEY, [{ type: 'mode' }]);
    assert.deepEqual(await first?.load(KEY), [...entries, { type: 'mode' }]);
    await first?.delete(KEY);
    assert.equal(await second?.load(KEY), null);
  });

  test('both append at the same time, and both have everything, once and in their order', async (context) => {
    const scene = new Scene(context);
    const stores = ['first', 'second'].map((home) => scene.open(scene.local({ ack: 'remote' }, home)));
    const entry = (machine: number, n: number): { type: string; uuid: string } => ({ type: 'user', uuid: `${machine}/${n}` });
    await Promise.all(
      stores.map(async (store, machine) => {
        for (let n = 0; n < 20; n += 1) {
          await store.append(KEY, [entry(machine, n)]);
        }
      }),
    );
    const [one, other] = await Promise.all(stores.map((store) => store.load(KEY)));
    assert.deepEqual(one, other);
    for (const machine of [0, 1]) {
      const own = one?.filter((it) => it.uuid?.startsWith(`${machine}/`));
      assert.deepEqual(own, Array.from({ length: 20 }, (_, n) => entry(machine, n)));
    }
    assert.equal(one?.length, 40);
  });
});
