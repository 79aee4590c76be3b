// What fills the context now, and what all of it took: as pictures, and as numbers that agree with what is in the files.

import assert from 'node:assert/strict';
import test, { after } from 'node:test';

import { person, stopped } from './lib/browser.mjs';
import { branches, workshop } from './lib/fixtures/stories.mjs';
import { scene } from './lib/scene.mjs';
import { Transcript } from './lib/transcript.mjs';
import { until } from './lib/until.mjs';
import { drawn, frame, openSession, record, say, settled } from './lib/views.mjs';

after(stopped);

const number = (text) => Number(text.replace(/,/g, '').replace(/([\d.]+)K/, (_, n) => String(n * 1000)).replace(/([\d.]+)M/, (_, n) => String(n * 1e6)));
const day = 86_400_000;

test('the context is a picture of its parts, which add up', async (t) => {
  const made = branches();
  const at = await scene(t, { transcripts: [made] });
  const page = await (await person(t)).page();
  await openSession(page, at, made.id);
  await page.keyboard.press('c');
  const panel = page.getByTestId('context');
  await panel.waitFor();
  const context = await at.ask('GET', `/v1/sessions/${made.id}/context`);
  const rows = await panel.getByRole('row').allInnerTexts();
  const value = (name) => number(rows.find((row) => row.includes(name)).split('\t')[1]);
  for (const [part, name] of [['system', 'System prompt'], ['tools', 'Tools'], ['results', 'Results'], ['user', 'What you said'], ['assistant', 'Answers'], ['summary', 'Summaries']]) {
    assert.equal(value(name), context.parts[part], part);
    assert.ok(value(name) > 0, `${part} has tokens`);
  }
  const picture = panel.getByRole('img');
  const widths = await picture.locator('rect:not(.room)').evaluateAll((all) => all.map((one) => Number(one.getAttribute('width'))));
  const share = (100 * context.tokens) / context.window;
  assert.ok(Math.abs(widths.reduce((sum, width) => sum + width, 0) - share) < 2 + 0.2 * widths.length, `${widths} of ${share}`);
  assert.match(await panel.innerText(), new RegExp(`${context.tokens.toLocaleString('en')} tokens`));
});

test('the largest parts lead to their records, and a compaction makes room', async (t) => {
  const made = new Transcript({ key: 'main:web:big', begun: Date.now() - 1e7 });
  for (let round = 0; round < 12; round++) {
    made.user(`Question ${round}`);
    made.tool('bash', { command: `cat ${round}` }, `${'a line of output\n'.repeat(round === 6 ? 4000 : 20)}`);
    made.assistant(`Answer ${round}. ${'More words. '.repeat(60)}`);
  }
  const at = await scene(t, { transcripts: [made] });
  const page = await (await person(t)).page();
  await openSession(page, at, made.id, { panel: 'context' });
  const panel = page.getByTestId('context');
  const before = (await at.ask('GET', `/v1/sessions/${made.id}/context`)).tokens;
  const largest = panel.locator('ul li a').first();
  const n = Number(/record (\d+)/.exec(await largest.innerText())[1]);
  assert.equal(at.records(made.id).find((one) => one.n === n).type, 'tool_result');
  await largest.click();
  await record(page, n - 2).getByText('a line of output').first().waitFor();
  await panel.getByRole('button', { name: 'Compact now' }).click();
  await at.recorded(made.id, 'a compaction', (all) => all.some(({ type }) => type === 'compaction'));
  await until('less is shown', async () => number((/^([\d.,KM]+) tokens/m.exec(await panel.innerText()) ?? [])[1] ?? '1e9') < before);
  // What it replaced is folded away at the beginning.
  await openSession(page, at, made.id);
  await frame(page).focus();
  await page.keyboard.press('Home');
  await page.getByTestId('compaction').waitFor();
});

test('words can be pinned, are listed, and let go', async (t) => {
  const made = branches();
  const at = await scene(t, { transcripts: [made] });
  const page = await (await person(t)).page();
  await openSession(page, at, made.id, { panel: 'context' });
  await record(page, made.at.second).getByRole('button', { name: `Actions for record ${made.at.second}` }).click();
  await page.getByRole('menuitem', { name: 'Pin these words' }).click();
  await at.recorded(made.id, 'a pin', (all) => all.some(({ type, to }) => type === 'pin' && to === made.at.second));
  const panel = page.getByTestId('context');
  await until('it is listed', async () => {
    if (/Pinned[\s\S]*Then move the check/.test(await panel.innerText())) return true;
    await page.getByTestId('open-context').click();
    await page.getByTestId('open-context').click();
    return false;
  });
  await panel.getByRole('button', { name: 'Let go' }).click();
  await at.recorded(made.id, 'it was let go', (all) => all.filter(({ type }) => type === 'pin').length === 2);
  await until('it is gone', async () => !/Pinned/.test(await panel.innerText()));
});

test('what is sent otherwise than it was written is listed', async (t) => {
  const made = workshop();
  const at = await scene(t, { transcripts: [made], model: false });
  const page = await (await person(t)).page();
  await openSession(page, at, made.id, { panel: 'context' });
  const repairs = page.getByTestId('repairs');
  await repairs.waitFor();
  assert.match(await repairs.innerText(), /toolu_open/);
});

test('usage over time by model and by agent: tokens and cost as the files have them', async (t) => {
  const talks = [['main', 'claude-opus-5', 1, 1000], ['main', 'claude-sonnet-4-5', 2, 3000], ['work', 'claude-opus-5', 2, 500], ['work', 'claude-opus-5', 40, 90_000]];
  const transcripts = talks.map(([agent, model, ago, tokens], number) => {
    const made = new Transcript({ key: `${agent}:web:ada`, begun: Date.now() - ago * day, number });
    made.add('context', { model });
    made.user('Hello.');
    made.assistant('Hello.', { model, usage: { input_tokens: tokens, output_tokens: tokens / 10 } });
    return made;
  });
  const at = await scene(t, { transcripts, model: false });
  const page = await (await person(t)).page(at.url);
  await page.getByRole('button', { name: 'Usage' }).click();
  const figures = page.getByRole('region', { name: 'Usage figures' });
  const rows = async () => Object.fromEntries((await figures.getByRole('row').allInnerTexts()).slice(1).map((row) => row.trim().split('\t')).map(([name, ...cells]) => [name.trim(), cells.map((cell) => cell.trim())]));
  await figures.getByRole('row').nth(1).waitFor();
  const byModel = await rows();
  assert.deepEqual(byModel['claude-opus-5'].slice(0, 5), ['2', '2', '0', '1,500', '150']);
  assert.deepEqual(byModel['claude-sonnet-4-5'].slice(0, 5), ['1', '1', '0', '3,000', '300']);
  assert.match(byModel['claude-opus-5'].at(-1), /^(<?\$)/);
  assert.match(await figures.innerText(), /4,950 tokens/);
  // One bar on one day, two parts on the other.
  const bars = () => page.getByTestId('chart').locator('rect').evaluateAll((all) => all.map((one) => one.textContent));
  const date = (ago) => new Date(Date.now() - ago * day).toISOString().slice(0, 10);
  assert.deepEqual((await bars()).sort(), [`${date(1)}, claude-opus-5: 1,100`, `${date(2)}, claude-opus-5: 550`, `${date(2)}, claude-sonnet-4-5: 3,300`].sort());
  // A scale with round numbers, and the same as a table.
  assert.deepEqual(await page.getByTestId('chart').locator('.grid').allInnerTexts(), ['4,000', '2,000']);
  await page.getByTestId('days').locator('summary').click();
  const days = page.getByTestId('days').getByRole('row');
  await until('the table', async () => (await days.count()) === 3);
  assert.deepEqual((await days.nth(2).innerText()).split('\t').map((cell) => cell.trim()), [date(2), '3,300', '550', '3,850']);
  await page.getByTestId('days').locator('summary').click();
  await page.getByText('Days are those of UTC.').waitFor();
  await figures.getByLabel('By').selectOption('agent');
  await until('by agent', async () => 'work' in (await rows()));
  assert.deepEqual((await rows()).work.slice(0, 5), ['1', '1', '0', '500', '50']);
  await figures.getByLabel('Days').selectOption('90');
  await until('the older one as well', async () => (await rows()).work[3] === '90.5K');
  await figures.getByLabel('Show').selectOption('cost');
  await until('money', async () => (await bars()).every((bar) => /: (<?\$)/.test(bar)));
});

test('a turn that was just had is in the usage', async (t) => {
  const at = await scene(t);
  const page = await (await person(t)).page(`${at.url}/#/new`);
  await say(page, 'Hello.');
  await settled(page);
  await page.getByText('ECHO(1 messages): Hello.').waitFor();
  const id = await until('a session', () => at.sessions()[0]);
  await at.recorded(id, 'the end', (all) => all.some(({ type, state }) => type === 'turn' && state === 'done'));
  await page.getByRole('button', { name: 'Usage' }).click();
  await page.getByTestId('chart').locator('rect').first().waitFor();
});

test('an answer that comes late does not take the place of a newer one', async (t) => {
  const made = new Transcript({ key: 'main:web:ada', begun: Date.now() - 40 * day });
  made.user('Hello.');
  made.assistant('Hello.', { usage: { input_tokens: 700, output_tokens: 77 } });
  const at = await scene(t, { transcripts: [made], model: false });
  const page = await (await person(t)).page();
  // What is asked first, of the last thirty days, is held until the rest is there.
  const held = [];
  let isHeld = true;
  await page.route('**/v1/usage*', (route) => (isHeld ? void held.push(route) : route.continue()));
  await page.goto(`${at.url}/#/usage`);
  await until('the first questions', () => held.length === 2);
  isHeld = false;
  await page.getByLabel('Days').selectOption('90');
  const figures = page.getByRole('region', { name: 'Usage figures' });
  await figures.getByText('777 tokens').waitFor();
  await Promise.all(held.map(async (route) => {
    const told = page.waitForResponse((response) => response.request() === route.request());
    await route.continue();
    await (await told).finished();
  }));
  await drawn(page);
  assert.match(await figures.innerText(), /777 tokens/);
});
