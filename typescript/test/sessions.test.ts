/**
 * The conversations of the program itself.
 */

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test, type TestContext } from 'node:test';

import { type Message, Sessions } from 'unforget';

import { Scene } from './scene.js';

function open(context: TestContext): Sessions {
  const scene = new Scene(context);
  const sessions = new Sessions(scene.place());
  scene.atEnd(() => sessions.close());
  return sessions;
}

const peer = (): string => `peer-${randomUUID()}`;

describe('sessions', () => {
  test('what was appended is the history', async (context) => {
    const sessions = open(context);
    const key = `main:api:${peer()}`;
    const messages: Message[] = [
      { role: 'user', content: 'Which files are there?' },
      { role: 'assistant', content: [{ type: 'text', text: 'I look.' }, { type: 'tool_use', id: 'toolu_1', name: 'bash', input: { command: 'ls' } }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'a.txt' }] },
      { role: 'assistant', content: [{ type: 'text', text: 'One: a.txt.' }] },
    ];
    const first = await sessions.append({ key }, messages.slice(0, 1));
    const second = await sessions.append({ sessionId: first.sessionId }, messages.slice(1));
    assert.equal(second.sessionId, first.sessionId);
    assert.ok(second.n > first.n);
    const history = await sessions.history({ key });
    assert.equal(history.sessionId, first.sessionId);
    const texts = (message: Message): unknown[] => (typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : [...message.content]);
    const plain = (all: readonly Message[]): unknown[] => all.map((it) => ({ role: it.role, content: texts(it) }));
    assert.deepEqual(plain(history.messages), plain(messages));
    assert.deepEqual(history.repairs, []);
    assert.deepEqual(await sessions.history({ sessionId: first.sessionId }), history);
  });

  test('a client id is appended once', async (context) => {
    const sessions = open(context);
    const key = `main:api:${peer()}`;
    const messages: Message[] = [{ role: 'user', content: 'Once.' }];
    await sessions.append({ key }, messages, { clientId: 'one' });
    await sessions.append({ key }, messages, { clientId: 'one' });
    assert.equal((await sessions.history({ key })).messages.length, 1);
  });

  test('all sessions are listed, page by page', async (context) => {
    const sessions = open(context);
    const label = peer();
    const ids = new Set<string>();
    for (let n = 0; n < 5; n += 1) {
      ids.add((await sessions.append({ key: `main:${label}:${n}` }, [{ role: 'user', content: `Number ${n}.` }])).sessionId);
    }
    const listed: string[] = [];
    for await (const session of sessions.list({ channel: label, limit: 2 })) {
      listed.push(session.id);
    }
    assert.equal(listed.length, 5);
    assert.deepEqual(new Set(listed), ids);
    const [one] = await collect(sessions.list({ key: `main:${label}:3` }));
    assert.equal(one?.key, `main:${label}:3`);
    assert.deepEqual(await collect(sessions.list({ channel: label, until: new Date(0) })), []);
  });

  test('what was said is found', async (context) => {
    const sessions = open(context);
    const word = `word${randomUUID().replaceAll('-', '')}`;
    const { sessionId } = await sessions.append({ key: `main:api:${peer()}` }, [{ role: 'user', content: `Remember ${word}, please.` }]);
    const found = await sessions.search(word, { limit: 5 });
    assert.deepEqual(found.hits.map((hit) => hit.session), [sessionId]);
    assert.match(found.hits[0]?.snippet ?? '', new RegExp(word));
    assert.deepEqual((await sessions.search(word, { role: 'assistant' })).hits, []);
  });

  test('a session that is not there is told', async (context) => {
    const sessions = open(context);
    await assert.rejects(sessions.history({ key: `main:api:${peer()}` }), { name: 'UnforgetError', code: 'not_found' });
    await assert.rejects(sessions.history({ sessionId: 'nothing' }), { name: 'UnforgetError', code: 'not_found' });
    await assert.rejects(sessions.append({ sessionId: 'nothing' }, [{ role: 'user', content: 'x' }]), { name: 'UnforgetError', code: 'not_found' });
  });
});

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) {
    all.push(item);
  }
  return all;
}
