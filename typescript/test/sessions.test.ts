/**
 * The conversations of the program itself.
 */

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test, type TestContext } from 'node:test';

import { type ListOptions, type Message, Sessions } from 'unforget';

import { needsProgram, Scene, within } from './scene.js';

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
    assert.equal((await collect(sessions.list({ channel: label, pinned: false }))).length, 5);
    assert.deepEqual(await collect(sessions.list({ channel: label, pinned: true })), []);
  });

  test('an option does not pass for the number of a request', { skip: needsProgram }, async (context) => {
    const sessions = open(context);
    const { sessionId } = await sessions.append({ key: `main:api:${peer()}` }, [{ role: 'user', content: 'Hello.' }]);
    const odd = { id: 77, op: 'nothing' } as ListOptions;
    assert.deepEqual((await within(60_000, collect(sessions.list(odd)))).map((it) => it.id), [sessionId]);
  });

  test('a session is looked for on all pages', async (context) => {
    const scene = new Scene(context);
    const asked: string[] = [];
    // A server that has looked through many answers with an empty page, and says where it goes on.
    const server = createServer((request, response) => {
      asked.push(`${request.method} ${request.url}`);
      const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost');
      const isLast = searchParams.get('cursor') === 'two';
      const page = { sessions: isLast ? [{ id: 'found' }] : [], next: isLast ? null : searchParams.has('cursor') ? 'two' : 'one' };
      response.end(JSON.stringify(pathname.endsWith('/messages') ? { n: 7, messages: [] } : page));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    scene.atEnd(() => {
      server.closeAllConnections();
      server.close();
    });
    const sessions = new Sessions({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
    scene.atEnd(() => sessions.close());
    const key = 'main:api:ada';
    assert.equal((await sessions.history({ key })).sessionId, 'found');
    assert.deepEqual(await sessions.append({ key }, [{ role: 'user', content: 'Hello.' }]), { sessionId: 'found', n: 7 });
    assert.deepEqual(asked.filter((it) => it.startsWith('POST')), ['POST /v1/sessions/found/messages']);
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
