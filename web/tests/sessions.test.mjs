// The list of sessions: what a row tells, what is found in them, what is left when it is filtered.

import assert from 'node:assert/strict';
import test, { after } from 'node:test';

import { person, stopped } from './lib/browser.mjs';
import { branches, found, languages, ordinary, scripts, stories, workshop } from './lib/fixtures/stories.mjs';
import { scene } from './lib/scene.mjs';
import { Transcript } from './lib/transcript.mjs';
import { until } from './lib/until.mjs';
import { box, calls, connected, hits, listed, row, rows, say, searchBox, settled } from './lib/views.mjs';

after(stopped);

const shownIds = (page) => until('rows', async () => (await rows(page).count()) > 0 && listed(page));
const exactly = (page, what, wanted) => until(`${what}: ${wanted.length} rows`, async () => {
  const ids = await listed(page);
  return ids.length === wanted.length && wanted.every((id) => ids.includes(id));
});

test('a row has a title, a key, turns, tokens, a cost and a time', async (t) => {
  const ago = (ms) => Date.now() - ms;
  const plain = new Transcript({ key: 'main:cli:ada', begun: ago(3 * 3600_000), number: 1 });
  plain.title('Three hours ago');
  plain.user('one');
  plain.assistant('two', { usage: { input_tokens: 2000, output_tokens: 500 } });
  plain.user('three');
  plain.assistant('four', { usage: { input_tokens: 3000, output_tokens: 500 } });
  const at = await scene(t, { transcripts: [plain], model: false });
  const page = await (await person(t)).page(at.url);
  const text = await row(page, plain.id).innerText();
  assert.match(text, /Three hours ago/);
  assert.match(text, /main:cli:ada/);
  assert.match(text, /\b2 turns\b/);
  assert.match(text, /6,000 tokens/);
  assert.match(text, /\b3 h\b/);
  // 5,000 tokens in and 1,000 out of claude-opus-5.
  assert.match(text, /\$0\.0\d/);
  assert.equal(await row(page, plain.id).locator('time').getAttribute('datetime'), new Date(plain.now).toISOString());
});

test('the most recently used is first, and the newest page is there', async (t) => {
  const all = stories();
  const at = await scene(t, { transcripts: all, model: false });
  const page = await (await person(t)).page(at.url);
  const wanted = all.sort((a, b) => b.now - a.now).map(({ id }) => id);
  const ids = await shownIds(page);
  assert.deepEqual(ids, wanted.slice(0, ids.length));
  assert.ok(ids.length >= 10, `${ids.length} rows`);
});

test('what is damaged, labelled or pinned is marked', async (t) => {
  const [story, talk] = [workshop(), branches()];
  const at = await scene(t, { transcripts: [story, talk], model: false });
  await at.ask('PATCH', `/v1/sessions/${talk.id}`, { pinned: true });
  const page = await (await person(t)).page(at.url);
  assert.match(await row(page, story.id).innerText(), /damaged place/);
  assert.match(await row(page, story.id).innerText(), /workshop/);
  assert.match(await row(page, talk.id).innerText(), /pinned/);
  assert.doesNotMatch(await row(page, talk.id).innerText(), /damaged/);
});

test('a session that somebody talks to is live, while it lasts', async (t) => {
  const at = await scene(t, { transcripts: ordinary(3), pace: 60, args: ['--limit', 'linger=1'] });
  const watching = await (await person(t)).page(at.url);
  const talking = await (await person(t)).page(`${at.url}/#/new`);
  await say(talking, '[[long:500]]');
  await connected(talking);
  const id = await until('a session begins', () => at.sessions().find((one) => at.records(one).some(({ content }) => content === '[[long:500]]')));
  await row(watching, id).getByText('answering').waitFor();
  await settled(talking);
  await row(watching, id).getByText('live', { exact: true }).waitFor();
  await talking.close();
  await row(watching, id).getByText('live', { exact: true }).waitFor({ state: 'detached' });
});

test('what is written elsewhere comes into the list by itself', async (t) => {
  const at = await scene(t, { transcripts: ordinary(2), model: false });
  const page = await (await person(t)).page(at.url);
  await rows(page).first().waitFor();
  at.run(['new', '--key', 'main:cli:late']);
  await page.getByText('main:cli:late').waitFor();
  assert.match(await rows(page).first().innerText(), /main:cli:late/);
});

test('a word of a tool\'s output is found as it is typed, and leads to its place', async (t) => {
  const talk = branches();
  const at = await scene(t, { transcripts: stories(), model: false });
  const page = await (await person(t)).page(at.url);
  await searchBox(page).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type(found.slice(0, 5));
  // The beginning of a word is enough.
  await hits(page).first().waitFor();
  await page.keyboard.type(found.slice(5));
  await until('one hit', async () => (await hits(page).count()) === 1 && (await hits(page).first().locator('mark').innerText()) === found);
  const hit = hits(page).first();
  assert.match(await hit.innerText(), /Repair the importer/);
  assert.match(await hit.innerText(), /Output of read_file/);
  await hit.click();
  const call = calls(page).first();
  await call.getByText(found).waitFor();
  assert.equal(await call.evaluate((element) => element.open), true);
  assert.match(page.url(), new RegExp(`#/s/${talk.id}\\?n=\\d+$`));
});

test('Japanese, Chinese and Korean are found by a part of a sentence', async (t) => {
  const at = await scene(t, { transcripts: languages(), model: false });
  const page = await (await person(t)).page(at.url);
  for (const [words, script] of [['確かめて', 'japanese'], ['検索', 'japanese'], ['数据库', 'chinese'], ['나침반', 'korean']]) {
    await searchBox(page).fill(words);
    const hit = hits(page).filter({ hasText: scripts[script].title }).first();
    await until(`${words} is found and marked`, async () => (await hit.locator('mark').allInnerTexts()).join('') === words);
  }
});

test('what was never said is not found, and the list comes back', async (t) => {
  const at = await scene(t, { transcripts: ordinary(4), model: false });
  const page = await (await person(t)).page(at.url);
  await rows(page).first().waitFor();
  await searchBox(page).fill('unquernstoned');
  await page.getByText('Nothing like that was said.').waitFor();
  await searchBox(page).press('Escape');
  await until('all rows', async () => (await rows(page).count()) === 4);
  assert.equal(await searchBox(page).inputValue(), '');
});

test('words that mean something to the search do no harm', async (t) => {
  const at = await scene(t, { transcripts: ordinary(4), model: false });
  const who = await person(t, { expects: [/status of 400/] });
  const page = await who.page(at.url);
  await rows(page).first().waitFor();
  for (const words of ['"', '(', 'AND', 'a" OR "b', '*', '-', 'NEAR(', 'x'.repeat(3000), "'; drop table"]) {
    await searchBox(page).fill(words);
    await until(`an answer to ${words.slice(0, 20)}`, async () => (await page.locator('.stale').count()) === 0 && (await page.getByRole('status').filter({ hasText: 'Searching' }).count()) === 0);
  }
  await searchBox(page).fill('simple');
  await hits(page).first().waitFor();
});

test('filters by agent, channel, peer, label, state and time', async (t) => {
  const fresh = new Transcript({ key: 'main:web:fresh', begun: Date.now() - 60_000, number: 5 });
  fresh.user('hello');
  fresh.assistant('hello');
  const all = [...ordinary(), workshop(), fresh];
  const at = await scene(t, { transcripts: all, model: false });
  const page = await (await person(t)).page(at.url);
  await rows(page).first().waitFor();
  const ids = (is) => all.filter(is).map(({ id }) => id);
  const part = (index) => (value) => ({ key }) => key.split(':')[index] === value;
  await page.getByRole('button', { name: 'Show filters' }).click();
  const form = page.getByTestId('filters');
  const set = async (name, value) => {
    await form.getByLabel(name, { exact: true }).fill(value);
    await form.getByLabel(name, { exact: true }).press('Enter');
  };
  await set('Agent', 'research');
  await exactly(page, 'agent', ids(part(0)('research')));
  await set('Channel', 'telegram');
  await exactly(page, 'agent and channel', ids(part(0)('research')));
  await set('Channel', 'nowhere');
  await page.getByText('No session is like that.').waitFor();
  await form.getByRole('button', { name: 'Clear' }).click();
  await set('Channel', 'web');
  await exactly(page, 'channel', ids(part(1)('web')));
  await form.getByRole('button', { name: 'Clear' }).click();
  await set('Peer', 'person1');
  await exactly(page, 'peer', ids(part(2)('person1')));
  await form.getByRole('button', { name: 'Clear' }).click();
  await set('Label', 'workshop');
  await exactly(page, 'label', ids(({ key }) => key === 'work:slack:team'));
  await form.getByRole('button', { name: 'Clear' }).click();
  await form.getByLabel('State').selectOption('damaged');
  await exactly(page, 'damaged', ids(({ key }) => key === 'work:slack:team'));
  await form.getByLabel('State').selectOption('deleted');
  await page.getByText('No session is like that.').waitFor();
  await form.getByRole('button', { name: 'Clear' }).click();
  await form.getByLabel('Time').selectOption('24');
  await exactly(page, 'the last day', [fresh.id]);
  await form.getByRole('button', { name: 'Clear' }).click();
  await exactly(page, 'all', all.map(({ id }) => id));
});

test('what is far down the list does not go stale', async (t) => {
  const all = ordinary(150);
  const at = await scene(t, { transcripts: all, model: false });
  const page = await (await person(t)).page(at.url);
  await rows(page).first().waitFor();
  const oldest = all[0];
  await page.getByTestId('sessions').hover();
  await until('the last row', async () => {
    await page.mouse.wheel(0, 3000);
    return (await row(page, oldest.id).count()) === 1;
  });
  await at.ask('DELETE', `/v1/sessions/${all[2].id}`);
  await row(page, all[2].id).waitFor({ state: 'detached' });
  assert.equal(await row(page, oldest.id).count(), 1);
});

test('keys that choose among characters are not for the search', async (t) => {
  const at = await scene(t, { transcripts: languages(), model: false });
  const page = await (await person(t)).page(at.url);
  await rows(page).first().waitFor();
  const session = await page.context().newCDPSession(page);
  await searchBox(page).focus();
  await session.send('Input.imeSetComposition', { text: 'けんさく', selectionStart: 4, selectionEnd: 4 });
  for (const key of ['ArrowDown', 'Enter']) await session.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', key, code: key, windowsVirtualKeyCode: 229 });
  assert.equal(await searchBox(page).evaluate((element) => element === document.activeElement), true);
  await session.send('Input.insertText', { text: '検索' });
  await until('the chosen characters', async () => (await searchBox(page).inputValue()) === '検索');
  await hits(page).filter({ hasText: scripts.japanese.title }).first().waitFor();
});

test('filters hold for what is searched as well', async (t) => {
  const at = await scene(t, { transcripts: ordinary(), model: false });
  const page = await (await person(t)).page(at.url);
  await searchBox(page).fill('simple');
  await until('hits of all', async () => (await hits(page).count()) >= 10);
  await page.getByRole('button', { name: 'Show filters' }).click();
  await page.getByTestId('filters').getByLabel('Agent').fill('work');
  await page.getByTestId('filters').getByLabel('Agent').press('Enter');
  await until('hits of one agent', async () => (await hits(page).count()) === 4);
});

test('an empty store says how to begin', async (t) => {
  const at = await scene(t);
  const page = await (await person(t)).page(at.url);
  await page.getByText('There are no sessions yet').waitFor();
  await page.getByRole('link', { name: 'New conversation' }).or(page.getByRole('button', { name: 'New conversation' })).first().click();
  await say(page, 'The first words.');
  await page.getByText('ECHO(1 messages): The first words.').waitFor();
  await until('the session is in the list', async () => (await rows(page).count()) === 1);
  assert.equal(await box(page).inputValue(), '');
});
