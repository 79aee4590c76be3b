// What can be done with a session: it gets a name, a label, a pin, a time to live; it is forked, exported, thrown away and brought back.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test, { after } from 'node:test';

import { person, stopped } from './lib/browser.mjs';
import { hidden, secretive } from './lib/fixtures/hostile.mjs';
import { branches, ordinary } from './lib/fixtures/stories.mjs';
import { scene } from './lib/scene.mjs';
import { until } from './lib/until.mjs';
import { connected, drawn, listed, openSession, row, rows } from './lib/views.mjs';

after(stopped);

async function steering(t, made = branches()) {
  const at = await scene(t, { transcripts: [made, ...ordinary(3)] });
  const who = await person(t, { acceptDownloads: true });
  const page = await who.page();
  await openSession(page, at, made.id, { panel: 'about' });
  const panel = page.getByTestId('about');
  await panel.waitFor();
  const press = (name) => panel.getByRole('button', { name, exact: true }).click();
  const answer = async (words) => {
    const field = page.getByRole('dialog').getByRole('textbox');
    await field.fill(words);
    await field.press('Enter');
  };
  const session = () => at.ask('GET', `/v1/sessions/${made.id}`);
  return { at, made, page, who, panel, press, answer, session };
}

test('renamed, it has the new title everywhere', async (t) => {
  const { at, made, page, press, answer, session } = await steering(t);
  await press('Rename');
  await answer('Mended the importer');
  await at.recorded(made.id, 'a title', (all) => all.some(({ title }) => title === 'Mended the importer'));
  await row(page, made.id).getByText('Mended the importer').waitFor();
  await page.getByRole('heading', { level: 1, name: 'Mended the importer' }).waitFor();
  await until('the title of the tab', async () => (await page.title()).startsWith('Mended the importer'));
  assert.equal((await session()).title, 'Mended the importer');
});

test('a question can be left alone, by key and by button', async (t) => {
  const { at, made, page, press } = await steering(t);
  const before = at.records(made.id).length;
  await press('Rename');
  await page.getByRole('dialog').getByRole('textbox').fill('no');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await press('Rename');
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.equal(at.records(made.id).length, before);
});

test('a label is given and taken off', async (t) => {
  const { at, made, page, panel, press, answer, session } = await steering(t);
  await press('Label');
  await answer('keep me');
  await row(page, made.id).getByText('keep me').waitFor();
  assert.equal((await session()).label, 'keep me');
  await press('Label');
  await answer('');
  await row(page, made.id).getByText('keep me').waitFor({ state: 'detached' });
  assert.equal((await session()).label ?? null, null);
  await panel.waitFor();
  assert.ok(at.records(made.id).length > 0);
});

test('a pinned session is marked, can be filtered, and let go', async (t) => {
  const { made, page, press, session } = await steering(t);
  await press('Pin');
  await row(page, made.id).getByText('pinned').waitFor();
  assert.equal((await session()).pinned, true);
  await page.getByRole('button', { name: 'Show filters' }).click();
  await page.getByTestId('filters').getByLabel('Pinned only').check();
  await until('only that one', async () => JSON.stringify(await listed(page)) === JSON.stringify([made.id]));
  await press('Unpin');
  await until('not pinned', async () => (await session()).pinned === false);
});

test('how long it is kept is said, and what makes no sense is refused', async (t) => {
  const { at, made, page, panel, press, answer } = await steering(t);
  await press('Expire');
  await answer('30d');
  await at.recorded(made.id, 'a time', (all) => all.some(({ type, after: time }) => type === 'expire' && time === '30d'));
  await until('it is told', async () => /Kept\s+30d/.test(await panel.innerText()) || /30d/.test(await panel.innerText()));
});

test('a time that makes no sense is refused with a word why', async (t) => {
  const made = branches();
  const at = await scene(t, { transcripts: [made] });
  const who = await person(t, { expects: [/status of 400/] });
  const page = await who.page();
  await openSession(page, at, made.id, { panel: 'about' });
  await page.getByTestId('about').getByRole('button', { name: 'Expire' }).click();
  await page.getByRole('dialog').getByRole('textbox').fill('soon');
  await page.keyboard.press('Enter');
  await page.getByTestId('notice').waitFor();
  assert.match(await page.getByTestId('notice').innerText(), /soon/);
  assert.equal(at.records(made.id).some(({ type }) => type === 'expire'), false);
});

test('a fork has everything up to there, and the first stays', async (t) => {
  const { at, made, page, press } = await steering(t);
  await press('Fork');
  const id = await until('another session', () => at.sessions().find((one) => one !== made.id && at.records(one)[0].origin?.id === made.id));
  await until('it is open', () => page.url().includes(id));
  await page.getByText('Thank you. Write a changelog line.').first().waitFor();
  await row(page, id).waitFor();
  await row(page, made.id).waitFor();
});

test('a checkpoint gets a name', async (t) => {
  const { at, made, press, answer, page } = await steering(t);
  await press('Checkpoint');
  // It goes by itself after a while, so it is waited for from the beginning.
  const told = page.getByTestId('notice').filter({ hasText: 'here we are' }).waitFor();
  await answer('here we are');
  await told;
  await at.recorded(made.id, 'the name', (all) => all.some(({ type, name }) => type === 'label' && name === 'here we are'));
});

test('exported as lines it is the file itself; with secrets masked it has none', async (t) => {
  const { at, made, page, panel } = await steering(t, secretive());
  const save = async (name) => {
    const [download] = await Promise.all([page.waitForEvent('download'), panel.getByRole('button', { name, exact: true }).click()]);
    return [download.suggestedFilename(), readFileSync(await download.path())];
  };
  const [maskedName, masked] = await save('Lines');
  assert.match(maskedName, /\.jsonl$/);
  for (const [name, part] of Object.entries(hidden)) assert.ok(!masked.includes(part), name);
  await panel.getByLabel('Mask secrets').uncheck();
  const [, lines] = await save('Lines');
  assert.ok(lines.equals(readFileSync(at.file(made.id))));
  const [bundleName, bundle] = await save('Bundle');
  assert.match(bundleName, /\.unforget$/);
  assert.ok(bundle.includes('manifest.json') && bundle.includes(lines.subarray(0, 200)));
  const [jsonName, json] = await save('JSON');
  assert.match(jsonName, /\.json$/);
  JSON.parse(json.toString('utf8'));
});

test('deleted, it is in the trash; undo brings it back as it was', async (t) => {
  const { at, made, page, press } = await steering(t);
  const before = readFileSync(at.file(made.id));
  await press('Delete');
  await until('it is gone', () => !at.sessions().includes(made.id));
  await row(page, made.id).waitFor({ state: 'detached' });
  await page.getByTestId('notice').getByRole('button', { name: 'Undo' }).click();
  await until('it is back', () => at.sessions().includes(made.id));
  await page.getByText('Thank you. Write a changelog line.').first().waitFor();
  await row(page, made.id).waitFor();
  assert.ok(readFileSync(at.file(made.id)).equals(before));
});

test('deleted and brought back, it is so in every tab', async (t) => {
  const { at, made, page, press, who } = await steering(t);
  who.expect(/status of 404/);
  const other = await who.page();
  await openSession(other, at, made.id);
  await press('Delete');
  await other.getByText('This session is not here').waitFor();
  await row(other, made.id).waitFor({ state: 'detached' });
  await page.getByTestId('notice').getByRole('button', { name: 'Undo' }).click();
  await other.getByText('Thank you. Write a changelog line.').first().waitFor();
  await connected(other);
});

test('a dialog is not closed by a press that began inside', async (t) => {
  const { page, press } = await steering(t);
  await press('Rename');
  const field = page.getByRole('dialog').getByRole('textbox');
  await field.fill('Words to select');
  const { x, y, height } = await field.boundingBox();
  await page.mouse.move(x + 40, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(5, 5);
  await page.mouse.up();
  await drawn(page);
  assert.equal(await field.inputValue(), 'Words to select');
  await page.mouse.click(5, 5);
  await page.getByRole('dialog').waitFor({ state: 'detached' });
});

test('what is in the trash is found there, and taken out later', async (t) => {
  const { at, made, page, press, who } = await steering(t);
  who.expect(/status of 404/);
  await press('Delete');
  await until('it is gone', () => !at.sessions().includes(made.id));
  await page.reload();
  await rows(page).first().waitFor();
  await page.getByRole('button', { name: 'Show filters' }).click();
  await page.getByTestId('filters').getByLabel('State').selectOption('deleted');
  await row(page, made.id).waitFor();
  await row(page, made.id).click();
  await page.getByRole('button', { name: 'Take it out of the trash' }).click();
  await until('it is back', () => at.sessions().includes(made.id));
  await page.getByText('Thank you. Write a changelog line.').first().waitFor();
});
