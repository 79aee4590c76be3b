/**
 * From end to end: the real SDK keeps its sessions here, and goes on with them on a machine that has nothing else.
 */

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { deleteSession, forkSession, getSessionMessages, listSessions, listSubagents, renameSession, tagSession } from '@anthropic-ai/claude-agent-sdk';

import { ask, cannotRun, Model } from './agent.js';
import { Scene } from './scene.js';
import { refusing } from './server.js';

describe('the Claude Agent SDK', { skip: cannotRun }, () => {
  let model: Model;
  before(async () => {
    model = await Model.start();
  });
  after(() => model.stop());

  function folder(scene: Scene, name: string): string {
    const path = join(scene.folder, name);
    mkdirSync(path, { recursive: true });
    return path;
  }

  test('goes on in another folder on another machine, forks, lists and deletes', { timeout: 900_000 }, async (context) => {
    const scene = new Scene(context);
    const project = scene.project('one for all');
    const sessionStore = scene.store({ project });
    const [here, there] = [folder(scene, 'here'), folder(scene, 'elsewhere 😀')];
    const first = await ask('Remember BANANA. [[bash:echo out-$((40+2))]]', { cwd: here, env: model.environment(scene, 'A'), sessionStore });
    assert.match(first.text, /out-42/);

    const second = await ask('On B. [[recall]]', { cwd: there, env: model.environment(scene, 'B'), sessionStore, resume: first.sessionId });
    assert.equal(second.sessionId, first.sessionId);
    assert.match(second.text, /BANANA/);

    const third = await ask('On C. [[recall]]', { cwd: here, env: model.environment(scene, 'C'), sessionStore, resume: first.sessionId, forkSession: true });
    assert.notEqual(third.sessionId, first.sessionId);
    assert.match(third.text, /BANANA.*On B/s);

    const fork = await forkSession(first.sessionId, { dir: there, sessionStore, title: 'A branch' });
    const fourth = await ask('On D. [[recall]]', { cwd: there, env: model.environment(scene, 'D'), sessionStore, resume: fork.sessionId });
    assert.match(fourth.text, /BANANA.*On B/s);
    assert.doesNotMatch(fourth.text, /On C/);

    await renameSession(first.sessionId, 'About fruit', { dir: here, sessionStore });
    await tagSession(first.sessionId, 'fruit', { dir: here, sessionStore });
    const listed = await listSessions({ dir: there, sessionStore });
    assert.deepEqual(new Set(listed.map((it) => it.sessionId)), new Set([first.sessionId, third.sessionId, fork.sessionId]));
    const found = listed.find((it) => it.sessionId === first.sessionId);
    assert.equal(found?.customTitle, 'About fruit');
    assert.equal(found.tag, 'fruit');
    assert.match(found.firstPrompt ?? '', /BANANA/);

    const messages = await getSessionMessages(first.sessionId, { dir: there, sessionStore });
    assert.match(JSON.stringify(messages[0]?.message), /BANANA/);
    assert.match(JSON.stringify(messages), /On B/);

    await deleteSession(third.sessionId, { dir: here, sessionStore });
    assert.equal((await listSessions({ dir: here, sessionStore })).length, 2);
  });

  test('P1: a server that refuses the token is told by connect, by mirror errors and on the standard error', { timeout: 900_000 }, async (context) => {
    const scene = new Scene(context);
    const warnings: string[] = [];
    const take = (warning: Error): unknown => warning.name === 'UnforgetWarning' && warnings.push(warning.message);
    process.on('warning', take);
    scene.atEnd(() => process.off('warning', take));
    const sessionStore = scene.open({ url: await refusing(scene), token: 'wrong' });
    await assert.rejects(sessionStore.connect(), { name: 'UnforgetError', code: 'unauthenticated', message: 'who are you?' });
    for (const sessionStoreFlush of ['eager', 'batched'] as const) {
      const asked = ask('Remember FIG.', { cwd: folder(scene, 'here'), env: model.environment(scene, 'A'), sessionStore, sessionStoreFlush });
      await assert.rejects(asked, /mirror_error.*who are you\?/);
    }
    assert.equal(warnings.length, 1, 'each reason once');
    assert.match(warnings[0] ?? '', /^entries of session [0-9a-f-]{36} were not saved: who are you\?$/);
  });

  test('keeps sub-agents', { timeout: 900_000 }, async (context) => {
    const scene = new Scene(context);
    const sessionStore = scene.store({ project: scene.project('with helpers') });
    const cwd = folder(scene, 'here');
    const { sessionId } = await ask('Ask another. [[agent:Say CHERRY.]]', { cwd, env: model.environment(scene, 'A'), sessionStore, sessionStoreFlush: 'eager' });
    const [agent] = await listSubagents(sessionId, { dir: cwd, sessionStore });
    assert.ok(agent !== undefined);
    const subkeys = await sessionStore.listSubkeys({ projectKey: '', sessionId });
    assert.deepEqual(subkeys, [`subagents/agent-${agent}`]);
    const entries = await sessionStore.load({ projectKey: '', sessionId, subpath: subkeys[0] ?? '' });
    assert.match(JSON.stringify(entries), /CHERRY/);
    const again = await ask('And now? [[recall]]', { cwd: folder(scene, 'there'), env: model.environment(scene, 'B'), sessionStore, resume: sessionId });
    assert.match(again.text, /Ask another/);
  });

  test('without a project, a session stays in its folder', { timeout: 900_000 }, async (context) => {
    const scene = new Scene(context);
    const sessionStore = scene.store();
    const cwd = folder(scene, 'here');
    const { sessionId } = await ask('Remember PEAR.', { cwd, env: model.environment(scene, 'A'), sessionStore });
    assert.deepEqual((await listSessions({ dir: cwd, sessionStore })).map((it) => it.sessionId), [sessionId]);
    assert.deepEqual(await listSessions({ dir: folder(scene, 'there'), sessionStore }), []);
    const again = await ask('And now? [[recall]]', { cwd, env: model.environment(scene, 'B'), sessionStore, continue: true });
    assert.equal(again.sessionId, sessionId);
    assert.match(again.text, /PEAR/);
  });
});
