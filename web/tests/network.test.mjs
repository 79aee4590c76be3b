// A network that fails, and a server that is killed: at the end the page shows what the file has, each thing once.

import assert from 'node:assert/strict';
import test, { after } from 'node:test';

import { offline, person, stopped } from './lib/browser.mjs';
import { ordinary } from './lib/fixtures/stories.mjs';
import { scene } from './lib/scene.mjs';
import { until } from './lib/until.mjs';
import { box, coming, connected, doubled, drawn, growing, openSession, pending, say, settled, shown, standing, watchDoubles } from './lib/views.mjs';

after(stopped);

/** A conversation over a network, with one turn in it. Answers take several seconds, so that something can happen in the middle of one also where everything takes its time. */
async function begun(t, { pace = 60, ...options } = {}) {
  const at = await scene(t, { network: true, pace, ...options });
  const who = await person(t, { expects: [offline] });
  const page = await who.page(`${at.url}/#/new`);
  await say(page, 'Good morning.');
  const id = await until('a session', () => at.sessions()[0]);
  await page.getByText('ECHO(1 messages): Good morning.').waitFor();
  await settled(page);
  return { at, who, page, id };
}

/** The page shows what the file has, and nothing waits. */
async function agrees(page, at, id) {
  await settled(page);
  const said = () => JSON.stringify(at.said(id).map(([side, words]) => [side, words.trim()]));
  await until('the page shows what the file has', async () => JSON.stringify(await shown(page)) === said());
}

const asked = (at, id, words) => at.said(id).filter(([side, said]) => side === 'user' && said.includes(words)).length;
const lost = (page) => standing(page).getByText('The connection is lost').waitFor();
const some = (page, count = 5) => until('some words', async () => (await coming(page)).split(/\s+/).length > count);

test('cut in the middle of an answer: it goes on where it was, and nothing is told twice', async (t) => {
  const { at, page, id } = await begun(t);
  await watchDoubles(page, ['seagull']);
  await say(page, `seagull ${'word '.repeat(190)}`);
  await some(page, 12);
  at.relay.cut();
  await lost(page);
  at.relay.heal();
  await connected(page);
  await agrees(page, at, id);
  assert.equal(asked(at, id, 'seagull'), 1);
  assert.deepEqual(await doubled(page), []);
});

test('cut until the answer is long over: all of it is there when the network is back', async (t) => {
  const { at, page, id } = await begun(t);
  await say(page, '[[long:100]]');
  await some(page);
  at.relay.cut();
  await lost(page);
  await at.recorded(id, 'the turn ended', (all) => all.filter(({ type, state }) => type === 'turn' && state === 'done').length === 2);
  at.relay.heal();
  await connected(page);
  await agrees(page, at, id);
  assert.equal(at.said(id).at(-1)[1].split(' ').length, 100);
});

test('cut again and again in one answer', async (t) => {
  const { at, page, id } = await begun(t);
  await watchDoubles(page, ['pelican']);
  await say(page, `pelican ${'word '.repeat(190)}`);
  await some(page, 5);
  for (let round = 0; round < 5; round++) {
    at.relay.cut();
    await lost(page);
    at.relay.heal();
    await connected(page);
  }
  await agrees(page, at, id);
  assert.equal(asked(at, id, 'pelican'), 1);
  assert.deepEqual(await doubled(page), []);
});

test('cut before a prompt was heard: it is sent again, and answered once', async (t) => {
  const { at, page, id } = await begun(t);
  const sprung = at.relay.cutBefore(/"type":"prompt"/);
  await watchDoubles(page, ['albatross']);
  await say(page, 'albatross');
  await sprung;
  await lost(page);
  await pending(page).getByText('albatross').waitFor();
  assert.equal(asked(at, id, 'albatross'), 0);
  at.relay.heal();
  await page.getByText(/ECHO\(3 messages\): albatross/).waitFor();
  await agrees(page, at, id);
  assert.equal(asked(at, id, 'albatross'), 1);
  assert.deepEqual(await doubled(page), []);
});

test('cut behind a prompt that was heard: it is not run twice', async (t) => {
  const { at, page, id } = await begun(t);
  const sprung = at.relay.muteBehind(/"type":"prompt"/);
  await watchDoubles(page, ['cormorant']);
  await say(page, 'cormorant');
  await sprung;
  await at.recorded(id, 'it was heard', () => asked(at, id, 'cormorant') === 1);
  await pending(page).getByText('sending').waitFor();
  at.relay.cut();
  await lost(page);
  at.relay.heal();
  await agrees(page, at, id);
  assert.equal(asked(at, id, 'cormorant'), 1);
  assert.equal(at.said(id).filter(([side, words]) => side === 'assistant' && words.includes('cormorant')).length, 1);
  assert.deepEqual(await doubled(page), []);
});

test('the end of an older prompt, told again, does not end the turn that runs', async (t) => {
  const { at, page, id } = await begun(t, { pace: 30 });
  const told = [];
  page.on('websocket', (socket) => socket.on('framereceived', ({ payload }) => told.push(JSON.parse(String(payload)))));
  const sprung = at.relay.muteBehind(/"type":"prompt"/);
  await say(page, 'guillemot');
  await sprung;
  await at.recorded(id, 'it was answered', (all) => all.filter(({ type, state }) => type === 'turn' && state === 'done').length === 2);
  const other = await (await person(t)).page();
  await openSession(other, { url: at.serving.url }, id);
  await say(other, '[[long:2000]]');
  await growing(other).waitFor();
  at.relay.cut();
  await lost(page);
  at.relay.heal();
  await until('the end is told again', () => told.some(({ type }) => type === 'caught_up') && told.some(({ type }) => type === 'done'));
  await growing(page).waitFor();
  await drawn(page);
  await page.getByRole('button', { name: 'Abort' }).click();
  await settled(page);
  await agrees(page, at, id);
  assert.equal(asked(at, id, 'guillemot'), 1);
});

test('said while there is no network: it waits, and is answered in order', async (t) => {
  const { at, page, id } = await begun(t);
  at.relay.cut();
  await lost(page);
  await say(page, 'one in the dark');
  await say(page, 'two in the dark');
  await until('both wait', async () => (await pending(page).count()) === 2);
  at.relay.heal();
  await page.getByText(/ECHO\(\d+ messages\): two in the dark/).waitFor();
  await agrees(page, at, id);
  assert.deepEqual(at.said(id).filter(([side]) => side === 'user').map(([, words]) => words), ['Good morning.', 'one in the dark', 'two in the dark']);
});

test('the page is loaded again before a prompt was heard: it is not lost', async (t) => {
  const { at, page, id } = await begun(t);
  const sprung = at.relay.cutBefore(/"type":"prompt"/);
  await say(page, 'kingfisher');
  await sprung;
  at.relay.heal();
  await page.reload();
  await connected(page);
  await page.getByText(/ECHO\(3 messages\): kingfisher/).waitFor();
  await agrees(page, at, id);
  assert.equal(asked(at, id, 'kingfisher'), 1);
});

test('the first words of a new conversation survive a cut', async (t) => {
  const at = await scene(t, { network: true });
  const who = await person(t, { expects: [offline] });
  const page = await who.page(`${at.url}/#/new`);
  const sprung = at.relay.cutBefore(/"type":"prompt"/);
  await say(page, 'the first words');
  await sprung;
  at.relay.heal();
  await page.getByText('ECHO(1 messages): the first words').waitFor();
  await settled(page);
  assert.equal(at.sessions().length, 1);
  assert.equal(asked(at, at.sessions()[0], 'the first words'), 1);
});

test('the first words are said also if one leaves before the conversation was read', async (t) => {
  const at = await scene(t);
  const page = await (await person(t)).page();
  const held = [];
  let isHeld = true;
  await page.route('**/v1/sessions/*/path*', (route) => (isHeld ? void held.push(route) : route.continue()));
  await page.goto(`${at.url}/#/new`);
  await say(page, 'said in passing');
  await until('it is read', () => held.length > 0);
  await page.evaluate(() => (location.hash = '#/'));
  await page.getByText('Choose a session, or begin one.').waitFor();
  isHeld = false;
  await Promise.all(held.map((route) => route.continue()));
  await until('it was said', () => at.sessions().length === 1 && at.said(at.sessions()[0]).length === 2);
  assert.equal(asked(at, at.sessions()[0], 'said in passing'), 1);
});

test('a network that carries nothing and says nothing is noticed', async (t) => {
  const at = await scene(t, { network: true });
  const who = await person(t, { expects: [offline] });
  const page = await who.page();
  // Half a minute of silence is long: the page's clock is moved on instead.
  await page.clock.install();
  await page.goto(`${at.url}/#/new`);
  await say(page, 'Good morning.');
  await page.getByText('ECHO(1 messages): Good morning.').waitFor();
  const [id] = at.sessions();
  at.relay.hold();
  await say(page, 'into the silence');
  await pending(page).waitFor();
  await until('it is noticed', async () => {
    await page.clock.runFor(5000);
    return (await standing(page).count()) > 0;
  });
  at.relay.heal();
  await until('it is answered', async () => {
    await page.clock.runFor(1000);
    return asked(at, id, 'into the silence') === 1 && (await pending(page).count()) === 0;
  });
  assert.deepEqual(at.said(id).filter(([side]) => side === 'user').map(([, words]) => words), ['Good morning.', 'into the silence']);
});

test('a connection that is refused is tried a few times, and again when somebody asks', async (t) => {
  const at = await scene(t, { transcripts: ordinary(1) });
  const page = await (await person(t)).page();
  let [tries, isRefused] = [0, true];
  await page.routeWebSocket(/\/ws$/, (socket) => {
    tries += 1;
    if (isRefused) void socket.close({ code: 1008, reason: 'not for you' });
    else socket.connectToServer();
  });
  await page.goto(`${at.url}/#/s/${at.sessions()[0]}`);
  await until('it is tried again', () => tries === 4);
  await standing(page).getByText('The server refuses the connection').waitFor();
  isRefused = false;
  await page.getByRole('button', { name: 'Try again' }).click();
  await connected(page);
  assert.equal(tries, 5);
});

test('two tabs, of which one loses its network, are in step again', async (t) => {
  const { at, page, id } = await begun(t);
  const other = await (await person(t)).page();
  await openSession(other, { url: at.serving.url }, id);
  at.relay.cut();
  await lost(page);
  await say(other, 'said meanwhile');
  await other.getByText(/ECHO\(3 messages\): said meanwhile/).waitFor();
  at.relay.heal();
  await agrees(page, at, id);
  await agrees(other, at, id);
});

test('the server is killed in the middle of an answer and started again: it goes on by a button', async (t) => {
  const { at, page, id } = await begun(t);
  await say(page, `heron [[long:400]]`);
  await some(page, 10);
  await at.serving.kill();
  await lost(page);
  const before = at.said(id);
  await at.serving.start();
  await connected(page);
  await until('told, or begun anew', async () => (await page.getByTestId('retry').count()) > 0 || (await growing(page).count()) > 0 || at.said(id).length > before.length);
  // It may be taken up by itself just now.
  if ((await page.getByTestId('retry').count()) > 0) await page.getByTestId('retry').click({ timeout: 1000 }).catch(() => undefined);
  await at.recorded(id, 'the answer', (all) => all.some(({ type, content }) => type === 'assistant' && JSON.stringify(content).split(' ').length >= 400));
  await agrees(page, at, id);
  assert.equal(asked(at, id, 'heron'), 1);
});

test('the server is killed while a prompt waits: it is answered once', async (t) => {
  const { at, page, id } = await begun(t);
  await say(page, '[[long:300]]');
  await some(page);
  await say(page, 'osprey');
  await pending(page).getByText('waits for its turn').waitFor();
  await at.serving.kill();
  await lost(page);
  await at.serving.start();
  await connected(page);
  await until('osprey is answered', async () => {
    const retry = page.getByTestId('retry');
    if ((await retry.count()) > 0) await retry.click({ timeout: 1000 }).catch(() => undefined);
    return at.said(id).some(([side, words]) => side === 'assistant' && words.includes('osprey'));
  });
  await agrees(page, at, id);
  assert.equal(asked(at, id, 'osprey'), 1);
});

test('the list says that the server is away, and comes back by itself', async (t) => {
  const { at, page } = await begun(t);
  await at.serving.kill();
  await page.getByRole('alert').filter({ hasText: 'does not answer' }).waitFor();
  await at.serving.start();
  await page.getByRole('alert').filter({ hasText: 'does not answer' }).waitFor({ state: 'detached' });
  await box(page).waitFor();
});
