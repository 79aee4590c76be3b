// Talking: what is said and answered, allowed and denied, aborted and tried again; and two tabs that see the same.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import path from 'node:path';
import test, { after } from 'node:test';

import { person, stopped } from './lib/browser.mjs';
import { scene } from './lib/scene.mjs';
import { Transcript } from './lib/transcript.mjs';
import { until } from './lib/until.mjs';
import { box, calls, coming, connected, doubled, drawn, growing, openSession, pending, say, settled, shown, watchDoubles } from './lib/views.mjs';

after(stopped);

/** A page with a new conversation, of which the first words are said. */
async function begun(t, options, words = 'Good morning.') {
  const at = await scene(t, options);
  const who = await person(t);
  const page = await who.page(`${at.url}/#/new`);
  await say(page, words);
  const id = await until('a session', () => at.sessions()[0]);
  await page.locator('article.user').waitFor();
  return { at, who, page, id };
}

const abort = (page) => page.getByRole('button', { name: 'Abort' });

test('what is said is answered, several times, and all of it is in the file', async (t) => {
  const { at, page, id } = await begun(t);
  await page.getByText('ECHO(1 messages): Good morning.').waitFor();
  for (let turn = 1; turn <= 4; turn++) {
    await say(page, `Words ${turn}`);
    await page.getByText(`ECHO(${2 * turn + 1} messages): Words ${turn}`).waitFor();
  }
  await settled(page);
  await until('the page shows what the file has', async () => JSON.stringify(await shown(page)) === JSON.stringify(at.said(id)));
  assert.equal(at.said(id).length, 10);
});

test('what was said before comes back with the arrow keys', async (t) => {
  const { page } = await begun(t);
  await settled(page);
  await say(page, 'Second words.');
  await settled(page);
  await box(page).focus();
  await page.keyboard.press('ArrowUp');
  assert.equal(await box(page).inputValue(), 'Second words.');
  await page.keyboard.press('ArrowUp');
  assert.equal(await box(page).inputValue(), 'Good morning.');
  await page.keyboard.press('ArrowDown');
  assert.equal(await box(page).inputValue(), 'Second words.');
  await page.keyboard.press('ArrowDown');
  assert.equal(await box(page).inputValue(), '');
});

test('in words of several lines the arrow keys move among these first', async (t) => {
  const { page } = await begun(t);
  await settled(page);
  await say(page, 'one\ntwo');
  await settled(page);
  await box(page).focus();
  await page.keyboard.press('ArrowUp');
  assert.equal(await box(page).inputValue(), 'one\ntwo');
  await page.keyboard.press('ArrowUp');
  assert.equal(await box(page).inputValue(), 'one\ntwo');
  await page.keyboard.press('ArrowUp');
  assert.equal(await box(page).inputValue(), 'Good morning.');
});

test('a line break is one with Shift, and what was begun is kept', async (t) => {
  const { at, page, id } = await begun(t);
  await settled(page);
  await box(page).fill('one');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('two');
  await drawn(page);
  await page.reload();
  await connected(page);
  assert.equal(await box(page).inputValue(), 'one\ntwo');
  await box(page).press('Enter');
  await at.recorded(id, 'both lines', (records) => records.some(({ type, content }) => type === 'user' && content === 'one\ntwo'));
  assert.equal(await box(page).inputValue(), '');
});

test('Enter that ends a composition sends nothing', async (t) => {
  const { at, page, id } = await begun(t);
  await settled(page);
  const session = await page.context().newCDPSession(page);
  await box(page).focus();
  await session.send('Input.imeSetComposition', { text: 'にほん', selectionStart: 3, selectionEnd: 3 });
  await session.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', key: 'Process', windowsVirtualKeyCode: 229 });
  await session.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 229 });
  await session.send('Input.insertText', { text: '日本' });
  await until('the chosen characters', async () => (await box(page).inputValue()) === '日本');
  await box(page).press('Enter');
  await page.getByText('ECHO(3 messages): 日本').waitFor();
  assert.deepEqual(at.said(id).filter(([who]) => who === 'user').map(([, words]) => words), ['Good morning.', '日本']);
});

test('a tool asks before it runs; allowed, it does', async (t) => {
  const { at, page, id } = await begun(t, {}, '[[bash:echo ran > proof; echo out]]');
  const question = page.getByTestId('question');
  await question.waitFor();
  assert.match(await question.innerText(), /May bash run\?/);
  assert.match(await question.innerText(), /echo ran > proof/);
  const proof = () => at.run(['show', id]).includes('not run') === false && existsSync(path.join(at.folder, 'home/work', id, 'proof'));
  assert.equal(proof(), false, 'nothing ran before it was allowed');
  await question.getByRole('button', { name: 'Allow' }).click();
  await page.getByText('TOOL-DONE: out').waitFor();
  await settled(page);
  assert.equal(await question.count(), 0);
  assert.match(await calls(page).first().locator('summary').innerText(), /bash[\s\S]*done/);
});

/** What of a question is cut off: its lines beside the screen, or folded away. */
const cutOff = (question) => question.evaluate((element) => [...element.querySelectorAll('pre')].filter((pre) => pre.scrollWidth > pre.clientWidth).length + element.querySelectorAll('.more').length);

test('whoever is asked sees all that would run: every line, and every line to its end', async (t) => {
  const script = `echo begun\necho ${'x'.repeat(3000)} ; touch beside\necho the last line`;
  const { page } = await begun(t, {}, `[[bash:${script}]]`);
  const question = page.getByTestId('question');
  await question.waitFor();
  assert.equal(await question.locator('pre').innerText(), script);
  assert.equal(await cutOff(question), 0);
  const [first, last] = await question.locator('pre').evaluate((pre) => {
    const walker = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    const places = [];
    for (const words of ['echo begun', 'touch beside']) {
      walker.currentNode = pre;
      while (walker.nextNode()) {
        const from = walker.currentNode.data.indexOf(words.slice(5));
        if (from < 0) continue;
        range.setStart(walker.currentNode, from);
        range.setEnd(walker.currentNode, from + 1);
        const { left, right, top } = range.getBoundingClientRect();
        const { left: from_, right: to } = pre.getBoundingClientRect();
        places.push({ isBeside: left < from_ || right > to, top });
        break;
      }
    }
    return places;
  });
  assert.deepEqual([first.isBeside, last.isBeside], [false, false]);
  assert.ok(last.top > first.top);
});

test('what would run is there to its end, however long it is', async (t) => {
  const script = `${'echo one line of very many\n'.repeat(900)}touch the-end`;
  const { page } = await begun(t, {}, `[[bash:${script}]]`);
  const question = page.getByTestId('question');
  await question.waitFor();
  assert.equal(await question.locator('pre').innerText(), script);
  assert.equal(await cutOff(question), 0);
  assert.equal(await question.getByRole('button', { name: 'Allow' }).isEnabled(), true);
});

test('what is hidden as a secret is looked at before it may run', async (t) => {
  const { at, page, id } = await begun(t, {}, '[[bash:echo -----BEGIN PRIVATE KEY----- ; touch proof ; echo out]]');
  const question = page.getByTestId('question');
  await question.waitFor();
  assert.doesNotMatch(await question.innerText(), /touch proof/);
  assert.equal(await question.getByRole('button', { name: 'Allow' }).isDisabled(), true);
  await question.getByRole('button', { name: 'Show it', exact: true }).click();
  assert.match(await question.locator('pre').innerText(), /touch proof/);
  await question.getByRole('button', { name: 'Allow' }).click();
  await page.getByText(/TOOL-DONE/).waitFor();
  assert.equal(at.records(id).filter(({ type }) => type === 'tool_result').length, 1);
});

test('denied, it does not, and the model hears why', async (t) => {
  const { at, page, id } = await begun(t, {}, '[[bash:touch never]]');
  const question = page.getByTestId('question');
  await question.getByLabel('Why not (optional)').fill('not on this machine');
  await question.getByRole('button', { name: 'Deny' }).click();
  await page.getByText(/TOOL-DONE: .*not on this machine/).waitFor();
  await settled(page);
  assert.match(await calls(page).first().locator('summary').innerText(), /denied/);
  assert.equal(at.records(id).find(({ type }) => type === 'tool_result').is_error, true);
});

test('a question is there for whoever comes later, and for everybody', async (t) => {
  const { at, who, page, id } = await begun(t, {}, '[[bash:echo twice]]');
  await page.getByTestId('question').waitFor();
  await page.reload();
  await page.getByTestId('question').waitFor();
  const other = await who.page();
  await openSession(other, at, id);
  await other.getByTestId('question').getByRole('button', { name: 'Allow' }).click();
  await page.getByText('TOOL-DONE: twice').waitFor();
  await page.getByTestId('question').waitFor({ state: 'detached' });
  assert.equal(at.records(id).filter(({ type }) => type === 'tool_result').length, 1);
});

test('an answer can be aborted, and what was said of it stays', async (t) => {
  const { at, page, id } = await begun(t, { pace: 30 }, '[[long:2000]]');
  await until('some words', async () => (await coming(page)).split(' ').length > 5);
  await abort(page).click();
  await settled(page);
  const records = await at.recorded(id, 'the end', (all) => all.some(({ type, state }) => type === 'turn' && state === 'aborted'));
  const [, [, kept]] = at.said(id);
  assert.ok(kept.split(' ').length >= 5 && kept.split(' ').length < 2000);
  await until('what was kept is shown', async () => (await shown(page))[1]?.[1] === kept.trim());
  assert.equal(records.filter(({ type }) => type === 'user').length, 1);
  await page.getByText('Aborted').first().waitFor();
});

test('the Escape key aborts from the box', async (t) => {
  const { at, page, id } = await begun(t, { pace: 30 }, '[[long:2000]]');
  await growing(page).waitFor();
  await box(page).press('Escape');
  await settled(page);
  await at.recorded(id, 'the end', (all) => all.some(({ type, state }) => type === 'turn' && state === 'aborted'));
});

test('what failed is told, and tried again by a button', async (t) => {
  const { at, page, id } = await begun(t);
  await settled(page);
  await at.maker.kill();
  await say(page, 'Nobody will answer.');
  await page.getByTestId('failed').waitFor();
  await until('why', async () => (await page.getByTestId('failed').innerText()).length > 5);
  // The maker is back at the same place.
  await at.maker.start();
  await page.getByTestId('retry').click();
  await page.getByText('ECHO(3 messages): Nobody will answer.').waitFor();
  await settled(page);
  assert.equal(at.said(id).filter(([who, words]) => who === 'user' && words === 'Nobody will answer.').length, 1, 'asked once');
  assert.equal(await page.getByTestId('failed').count(), 0);
});

test('a failure is told once, and is over when something else was done', async (t) => {
  const { at, page, id } = await begun(t);
  await settled(page);
  await at.maker.kill();
  await say(page, 'Nobody will answer.');
  await page.getByTestId('failed').waitFor();
  const records = await at.recorded(id, 'the failure', (all) => all.some(({ type, state }) => type === 'turn' && state === 'failed'));
  const { message } = records.find(({ type }) => type === 'error');
  await until('it is told once', async () => (await page.getByTestId('records').innerText()).split(message.slice(0, 40)).length === 2);
  // Back to before it, from elsewhere.
  const answered = at.records(id).find(({ type }) => type === 'assistant');
  await at.ask('POST', `/v1/sessions/${id}/rewind`, { to: answered.n });
  await page.getByTestId('failed').waitFor({ state: 'detached' });
  await page.getByTestId('retry').waitFor({ state: 'detached' });
});

test('every answer is told to whoever does not see it, also with the same words', async (t) => {
  const { page } = await begun(t);
  await settled(page);
  const told = page.locator('p.unseen[role=status]');
  await until('the first', async () => (await told.innerText()) === 'Answered.');
  await told.evaluate((element) => {
    globalThis.__told = [];
    new MutationObserver((changes) => changes.forEach(({ addedNodes }) => addedNodes.forEach((node) => globalThis.__told.push(node.textContent)))).observe(element, { childList: true, subtree: true });
  });
  await say(page, 'Again.');
  await page.getByText('ECHO(3 messages): Again.').waitFor();
  await until('the second', async () => (await page.evaluate(() => globalThis.__told)).includes('Answered.'));
});

test('prompts wait for their turn, and are answered in order', async (t) => {
  const { at, page, id } = await begun(t, { pace: 200 }, 'first [[long:60]]');
  await growing(page).waitFor();
  await say(page, 'second');
  await pending(page).getByText('waits for its turn').waitFor();
  await say(page, 'third');
  await until('both wait', async () => (await pending(page).count()) === 2);
  await page.getByText(/ECHO\(\d+ messages\): third/).waitFor();
  await settled(page);
  assert.deepEqual(at.said(id).map(([, words]) => words.replace(/ECHO\(\d+ messages\): /, 're ').slice(0, 9)), ['first [[l', 'memory su', 'second', 're second', 'third', 're third']);
  assert.deepEqual(await shown(page), at.said(id));
});

test('what waits in one tab is told of in the other', async (t) => {
  const { at, who, page, id } = await begun(t, { pace: 30 }, 'first [[long:4000]]');
  await growing(page).waitFor();
  const other = await who.page();
  await openSession(other, at, id);
  await say(page, 'second');
  await other.getByTestId('elsewhere').waitFor();
  assert.equal(await page.getByTestId('elsewhere').count(), 0, 'here its words are seen');
  // Whoever comes now is told as well.
  const third = await who.page();
  await openSession(third, at, id);
  await third.getByTestId('elsewhere').waitFor();
  await abort(third).click();
  for (const tab of [page, other, third]) {
    await tab.getByText(/ECHO\(\d+ messages\): second/).waitFor();
    await tab.getByTestId('elsewhere').waitFor({ state: 'detached' });
  }
});

test('two tabs on one session see the same, whoever speaks', async (t) => {
  const { at, who, page, id } = await begun(t, { pace: 80 });
  await settled(page);
  const other = await who.page();
  await openSession(other, at, id);
  await watchDoubles(page, ['from the first', 'from the second']);
  await watchDoubles(other, ['from the first', 'from the second']);
  await say(page, `from the first ${'tab '.repeat(190)}`);
  await growing(other).waitFor();
  await until('both have words', async () => (await coming(page)).includes('tab') && (await coming(other)).includes('tab'));
  await settled(page);
  await settled(other);
  await say(other, `from the second ${'tab '.repeat(190)}`);
  await growing(page).waitFor();
  await settled(other);
  await settled(page);
  const said = JSON.stringify(at.said(id).map(([side, words]) => [side, words.trim()]));
  for (const tab of [page, other]) {
    await until('it shows what the file has', async () => JSON.stringify(await shown(tab)) === said);
    assert.deepEqual(await doubled(tab), []);
  }
});

test('an abort in one tab is one in the other', async (t) => {
  const { at, who, page, id } = await begun(t, { pace: 30 }, '[[long:2000]]');
  const other = await who.page();
  await openSession(other, at, id);
  await growing(other).waitFor();
  await abort(other).click();
  await settled(page);
  await settled(other);
  assert.deepEqual(await shown(page), await shown(other));
});

test('what a terminal says is seen here', async (t) => {
  const made = new Transcript({ key: 'main:cli:ada', begun: Date.now() - 1e6 });
  made.user('Hello.');
  made.assistant('Hello.');
  const at = await scene(t, { transcripts: [made], model: false });
  const page = await (await person(t)).page();
  await openSession(page, at, made.id);
  at.run(['append', made.id], { input: '{"type":"user","content":"Said in a terminal."}\n' });
  await page.getByText('Said in a terminal.').waitFor();
});

test('a prompt that is too long is not taken, and not lost', async (t) => {
  const { page } = await begun(t, { args: ['--limit', 'prompt=1000'] });
  await settled(page);
  await say(page, `x${'y'.repeat(2000)}`);
  await pending(page).getByText('was not taken').waitFor();
  await pending(page).getByRole('button', { name: 'Edit' }).click();
  assert.equal((await box(page).inputValue()).length, 2001);
});
