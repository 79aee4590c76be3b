// A conversation as it is read: what was said, what tools did, what went wrong, and the way to any record.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test, { after } from 'node:test';

import { person, stopped } from './lib/browser.mjs';
import { branches, workshop } from './lib/fixtures/stories.mjs';
import { scene } from './lib/scene.mjs';
import { Transcript } from './lib/transcript.mjs';
import { until } from './lib/until.mjs';
import { address, call, calls, coming, connected, drawn, frame, growing, openSession, record, say, settled, shown } from './lib/views.mjs';

after(stopped);

/** A page with one conversation in it, from its beginning. */
async function opened(t, made, query) {
  const at = await scene(t, { transcripts: [made], model: false });
  const who = await person(t);
  const page = await who.page();
  await openSession(page, at, made.id, query);
  return { at, page, who };
}

const isSeen = (locator) => locator.evaluate((element) => {
  const { top, bottom } = element.getBoundingClientRect();
  const around = element.closest('[data-testid=records]').getBoundingClientRect();
  return bottom > around.top && top < around.bottom;
});
const seen = (what, locator) => until(`${what} is in sight`, async () => (await locator.count()) === 1 && isSeen(locator));

/** Goes through the conversation from its beginning until something is there. */
async function reach(page, locator) {
  await frame(page).focus();
  await page.keyboard.press('Home');
  await frame(page).hover();
  await until('it is there', async () => {
    if ((await locator.count()) > 0) return true;
    await page.mouse.wheel(0, 300);
    return false;
  });
}

test('Markdown is shown as it is meant, code with its colours', async (t) => {
  const made = workshop();
  const { page } = await opened(t, made, { n: made.at.thinking + 1 });
  const answer = record(page, made.at.thinking + 1);
  await answer.waitFor();
  await answer.locator('code', { hasText: 'code' }).first().waitFor();
  const pre = answer.locator('pre', { hasText: 'fn main()' });
  assert.ok((await pre.locator('span[class^=hljs-]').count()) >= 2, 'code has colours');
  assert.equal(await pre.innerText(), 'fn main() { println!("hi"); }');
  assert.deepEqual(await answer.getByRole('cell').allInnerTexts(), ['1', '2', '3']);
  assert.deepEqual(await answer.getByRole('columnheader').allInnerTexts(), ['a', 'b', 'c']);
  assert.deepEqual(await answer.locator('ol > li').allInnerTexts(), ['one', 'two']);
  assert.equal(await answer.locator('blockquote').innerText(), 'said');
  const link = answer.getByRole('link', { name: 'a link' });
  assert.equal(await link.getAttribute('href'), 'https://example.org/page');
  assert.match(await link.getAttribute('rel'), /noopener noreferrer/);
});

test('calls are folded and tell what ran, how it ended and how long it took', async (t) => {
  const made = workshop();
  const { page } = await opened(t, made);
  const lines = {
    good: [made.at.good, /bash\s+ls -l\s+done · 12 ms/],
    slow: [made.at.slow, /bash\s+make\s+done · 1 min 23 s/],
    bad: [made.at.bad, /bash\s+false\s+failed · 3 ms/],
    structured: [made.at.structured, /query\s+select 1\s+done/],
    denied: [made.at.denied, /bash\s+rm -r \/\s+denied/],
    repair: [made.at.repair, /bash\s+sleep 100\s+no result was saved/],
  };
  for (const [name, [n, wanted]] of Object.entries(lines)) {
    await reach(page, call(page, n));
    await until(`${name} tells`, async () => wanted.test(await call(page, n).locator('summary').innerText()));
  }
});

test('a call opens to its input and output', async (t) => {
  const made = workshop();
  const { page } = await opened(t, made, { n: made.at.thinking });
  const it = call(page, made.at.good);
  await it.waitFor();
  assert.equal(await it.getByText('total 0').count(), 0, 'folded at first');
  await it.locator('summary').click();
  await it.getByText('total 0').waitFor();
  assert.match(await it.innerText(), /Input[\s\S]*ls -l[\s\S]*Output[\s\S]*-rw-r--r-- 1 ada ada 0 file/);
  await it.locator('summary').click();
  await it.getByText('total 0').waitFor({ state: 'detached' });
  const structured = call(page, made.at.structured);
  await structured.locator('summary').click();
  await until('nested input', async () => /"deep": true/.test(await structured.innerText()));
});

test('thinking is folded, and opens', async (t) => {
  const made = workshop();
  const { page } = await opened(t, made, { n: made.at.thinking });
  const thought = page.getByText('A secret thought about rectangles.');
  const line = record(page, made.at.thinking).getByText('Thinking', { exact: true });
  await line.waitFor();
  assert.equal(await thought.isVisible(), false);
  await line.click();
  await thought.waitFor({ state: 'visible' });
});

test('pictures that were sent or that a tool gave are shown', async (t) => {
  const made = workshop();
  const { page } = await opened(t, made, { n: 3 });
  const size = (image) => image.evaluate(async (element) => (await element.decode(), [element.naturalWidth, element.naturalHeight]));
  assert.deepEqual(await size(record(page, 3).getByRole('img')), [64, 48]);
  const it = call(page, made.at.image);
  await it.locator('summary').click();
  assert.deepEqual(await size(it.getByRole('img')), [64, 48]);
  await it.getByText('the screen').waitFor();
});

test('damage is shown where it happened, and what is around it is whole', async (t) => {
  const made = workshop();
  const { page } = await opened(t, made, { n: made.at.damage + 2 });
  const damage = page.getByTestId('damage').first();
  await damage.waitFor();
  assert.match(await damage.innerText(), /55 bytes/);
  const y = async (locator) => (await locator.boundingBox()).y;
  const before = page.getByText('These were some calls.');
  const behind = page.getByText('And a call that was never answered.');
  assert.ok((await y(before)) < (await y(damage)) && (await y(damage)) < (await y(behind)));
});

test('a repair says that it is one, where it is', async (t) => {
  const made = workshop();
  const { page } = await opened(t, made, { n: made.at.repair });
  const it = call(page, made.at.repair);
  await it.getByText('the real one was never saved').waitFor();
});

test('an answer that broke off, and a failed turn, say so', async (t) => {
  const made = branches();
  const { page } = await opened(t, made, { n: made.at.failed, at: made.at.failed });
  await page.getByText('The answer broke off here.').waitFor();
  await page.getByText('the API is overloaded').first().waitFor();
  await until('the turn failed', async () => /Failed/.test(await record(page, made.at.failed).innerText()));
});

test('a compaction is a line that opens to the originals', async (t) => {
  const made = branches();
  const { page } = await opened(t, made);
  const line = page.getByTestId('compaction');
  await line.waitFor();
  const original = page.getByText('The importer drops the last line of a file.');
  assert.equal(await original.count(), 0);
  await page.getByText('Then move the check.').waitFor();
  assert.match(await line.innerText(), /4,200 → 900 tokens/);
  await line.getByRole('button', { name: 'Summary' }).click();
  await line.getByText('moving the check repaired it').waitFor();
  await line.getByRole('button', { name: /open the originals/ }).click();
  await reach(page, original);
  await line.getByRole('button', { name: /Fold/ }).click();
  await until('folded again', async () => (await original.count()) === 0);
});

test('the raw record is the line of the file, byte for byte', async (t) => {
  const made = branches();
  const { at, page } = await opened(t, made);
  const line = (n) => readFileSync(at.file(made.id), 'utf8').split('\n').find((one) => one.startsWith(`{"v":1,"n":${n},`));
  const last = record(page, made.at.last);
  await last.getByRole('button', { name: `Actions for record ${made.at.last}` }).click();
  await page.getByRole('menuitem', { name: 'Raw record' }).click();
  await until('the line', async () => (await last.getByTestId('raw').locator('pre').innerText()) === line(made.at.last));
  await last.getByTestId('raw').getByRole('button', { name: 'Close' }).click();
  assert.equal(await last.getByTestId('raw').count(), 0);
});

test('a link leads to any record: folded away, a result, or on another branch', async (t) => {
  const made = branches();
  const { at, page } = await opened(t, made, { n: made.at.asked });
  await seen('what was compacted', record(page, made.at.asked));
  assert.match(await record(page, made.at.asked).innerText(), /drops the last line/);
  await page.goto(address(at, made.id, { n: made.at.asked + 3 }));
  await until('the call of the result is open', async () => (await calls(page).first().evaluate((element) => element.open)) && /zephyrine/.test(await calls(page).first().innerText()));
  await page.goto(address(at, made.id, { n: made.at.rewrite }));
  await seen('the other branch', record(page, made.at.rewrite));
  await page.getByText('You are looking at another branch').waitFor();
  // A link from the list of records, in the same page.
  await page.goto(address(at, made.id));
  const link = record(page, made.at.second).getByRole('link', { name: /./ }).first();
  assert.equal(await link.getAttribute('href'), `#/s/${made.id}?n=${made.at.second}`);
  await link.click();
  await seen('the record that was clicked', record(page, made.at.second));
  await page.goBack();
});

test('a link to a record that is not there shows the conversation all the same', async (t) => {
  const made = branches();
  const { page } = await opened(t, made, { n: 99_999 });
  await page.getByText('Thank you. Write a changelog line.').waitFor();
});

test('a session that is not there says so', async (t) => {
  const at = await scene(t, { model: false });
  const who = await person(t, { expects: [/status of 404/] });
  const page = await who.page(address(at, '019b0000-0000-7000-8000-000000000000'));
  await page.getByText('This session is not here').waitFor();
});

test('an answer is seen while it comes, and stays when it is whole', async (t) => {
  const at = await scene(t, { pace: 120 });
  const page = await (await person(t)).page(`${at.url}/#/new`);
  await say(page, '[[long:120]]');
  await growing(page).waitFor();
  const lengths = [];
  await until('it grew several times', async () => {
    const text = await coming(page);
    if (text.length > (lengths.at(-1) ?? 0)) lengths.push(text.length);
    return lengths.length >= 4;
  });
  await settled(page);
  const [id] = at.sessions();
  assert.deepEqual(await shown(page), at.said(id));
  assert.equal(at.said(id)[1][1].split(' ').length, 120);
});

test('what was said last is in sight, and who reads further up is left alone', async (t) => {
  const made = new Transcript({ key: 'main:web:long', begun: Date.now() - 1e7 });
  for (let round = 0; round < 60; round++) {
    made.user(`Question ${round}`);
    made.assistant(`Answer ${round}\n\n${'A paragraph of some length. '.repeat(20)}`);
  }
  const at = await scene(t, { transcripts: [made], pace: 50 });
  const page = await (await person(t)).page();
  await openSession(page, at, made.id);
  await page.getByText('Answer 59', { exact: true }).waitFor();
  const fromEnd = () => frame(page).evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight);
  await until('it begins at the end', async () => (await fromEnd()) < 5);
  await say(page, '[[long:300]]');
  await growing(page).waitFor();
  await until('the end is followed', async () => (await coming(page)).length > 800 && (await fromEnd()) < 60);
  await frame(page).hover();
  await page.mouse.wheel(0, -900);
  await until('further up', async () => (await fromEnd()) > 500);
  const first = await frame(page).evaluate((element) => element.scrollTop);
  const { length } = await coming(page);
  await until('more came', async () => (await growing(page).count()) === 0 || (await coming(page)).length > length + 200);
  assert.equal(await frame(page).evaluate((element) => element.scrollTop), first);
  await page.getByRole('button', { name: 'To the end' }).click();
  await until('back at the end', async () => (await fromEnd()) < 60);
  await settled(page);
});

/** A conversation of so many questions, each with an answer of several lines. */
function questions(count) {
  const made = new Transcript({ key: 'main:web:questions', begun: Date.now() - 1e7 });
  const at = Array.from({ length: count }, (_, round) => {
    const n = made.user(`Question ${round}`);
    for (let call = 0; call < 3; call++) made.tool('bash', { command: `true ${call}` }, 'a line\n'.repeat(30));
    made.assistant(`Answer ${round}\n\n${'A paragraph of some length. '.repeat(20)}`);
    return n;
  });
  return { made, at };
}

test('what is opened at the end stays in sight', async (t) => {
  const { made } = questions(12);
  made.tool('bash', { command: 'the last one' }, 'a line\n'.repeat(200));
  const { page } = await opened(t, made);
  // So low that what was opened and what is behind it cannot both be seen.
  await page.setViewportSize({ width: 1280, height: 500 });
  const last = calls(page).last();
  await seen('the last call', last);
  await last.locator('summary').click();
  await last.getByText('a line').first().waitFor();
  await until('the output is drawn', () => last.evaluate((element) => element.getBoundingClientRect().height > 300));
  for (let frames = 0; frames < 5; frames++) {
    await drawn(page);
    assert.ok(await last.locator('summary').evaluate((element) => element.getBoundingClientRect().top >= element.closest('[data-testid=records]').getBoundingClientRect().top), 'it was pulled away');
  }
});

test('the keys lead from one thing that was said to the other, past what was never fetched, and to both ends', async (t) => {
  const { made, at } = questions(60);
  const { page } = await opened(t, made);
  await page.getByText('Answer 59', { exact: true }).waitFor();
  await frame(page).focus();
  for (let round = 59; round >= 0; round--) {
    await page.keyboard.press('[');
    await seen(`question ${round}`, record(page, at[round]));
  }
  for (let round = 1; round <= 4; round++) {
    await page.keyboard.press(']');
    await seen(`question ${round}`, record(page, at[round]));
  }
});

test('the way to the end covers nothing that is read', async (t) => {
  const { made } = questions(12);
  const { page } = await opened(t, made);
  await page.getByText('Answer 11', { exact: true }).waitFor();
  await frame(page).focus();
  await page.keyboard.press('Home');
  const button = await page.getByRole('button', { name: 'To the end' }).boundingBox();
  const text = await page.locator('article.assistant .markdown').first().boundingBox();
  assert.ok(button.x >= text.x + text.width, `${button.x} ${text.x + text.width}`);
});

test('a new conversation is followed from the first screen on', async (t) => {
  const at = await scene(t);
  const page = await (await person(t)).page(`${at.url}/#/new`);
  for (let turn = 1; turn <= 6; turn++) {
    await say(page, `Say it again ${turn}:\n\n${'- one line of many\n'.repeat(12)}`);
    await until(`answer ${turn} is in sight`, async () => {
      const answer = page.locator('article.assistant').filter({ hasText: `ECHO(${2 * turn - 1} messages)` });
      return (await answer.count()) === 1 && answer.evaluate((element) => element.getBoundingClientRect().bottom <= innerHeight);
    });
  }
});

test('a very long text is kept beside the transcript, and can be loaded', async (t) => {
  const at = await scene(t);
  const words = `Begin ${'0123456789 '.repeat(30_000)} end.`;
  await at.ask('POST', '/invocations', { prompt: words });
  const [id] = at.sessions();
  const page = await (await person(t)).page();
  await openSession(page, at, id);
  const load = page.getByRole('button', { name: /Load all of it/ });
  await load.waitFor();
  await load.click();
  await until('all of it', async () => {
    const more = page.getByRole('button', { name: /Show more/ }).first();
    if ((await more.count()) > 0) await more.click({ timeout: 2000 }).catch(() => undefined);
    return (await page.getByText('9 end.', { exact: false }).count()) > 0 || /9\s+end\.\s*$/m.test(await frame(page).innerText());
  });
});

test('a conversation is taken up where it was when the page is loaded again', async (t) => {
  const at = await scene(t);
  const page = await (await person(t)).page(`${at.url}/#/new`);
  await say(page, 'One.');
  await page.getByText('ECHO(1 messages): One.').waitFor();
  await settled(page);
  await page.reload();
  await connected(page);
  const [id] = at.sessions();
  await until('all of it', async () => JSON.stringify(await shown(page)) === JSON.stringify(at.said(id)));
  await say(page, 'Two.');
  await page.getByText('ECHO(3 messages): Two.').waitFor();
  await settled(page);
  assert.deepEqual(await shown(page), at.said(id));
});
