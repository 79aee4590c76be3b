// Branches, checkpoints and compactions as a picture; and the ways to look at them, to go back and to go elsewhere.

import assert from 'node:assert/strict';
import test, { after } from 'node:test';

import { person, stopped } from './lib/browser.mjs';
import { branches } from './lib/fixtures/stories.mjs';
import { scene } from './lib/scene.mjs';
import { until } from './lib/until.mjs';
import { box, growing, openSession, record, say, settled, shown } from './lib/views.mjs';

after(stopped);

async function drawn(t, options = {}) {
  const made = branches();
  const at = await scene(t, { transcripts: [made], ...options });
  const page = await (await person(t)).page();
  await openSession(page, at, made.id, { panel: 'tree' });
  const tree = page.getByTestId('tree');
  await tree.getByTestId('turn').first().waitFor();
  return { at, made, page, tree, turn: (n) => tree.locator(`[data-testid=turn][data-n="${n}"]`) };
}

const heads = (records) => records.filter(({ type }) => type === 'head');
const answer = async (page, words) => {
  await page.getByRole('dialog').getByRole('textbox').fill(words);
  await page.keyboard.press('Enter');
};

test('the picture has every turn, names, checkpoints, compactions, and where one is', async (t) => {
  const { tree, turn, made } = await drawn(t, { model: false });
  assert.equal(await tree.getByTestId('turn').count(), 4);
  assert.match(await turn(made.at.asked).innerText(), /The importer drops/);
  assert.match(await turn(made.at.asked).innerText(), /before the rewrite/);
  assert.match(await turn(made.at.rewrite).innerText(), /rewrite/);
  assert.match(await turn(made.at.second).innerText(), /compacted/);
  const last = tree.getByTestId('turn').last();
  assert.match(await last.innerText(), /main[\s\S]*you are here|you are here[\s\S]*main/);
  const picture = tree.getByRole('img');
  assert.match(await picture.getAttribute('aria-label'), /2 branches with 4 turns/);
  // Two lanes: the failed branch stands beside the other one.
  const lanes = await picture.locator('circle').evaluateAll((all) => new Set(all.map((one) => one.getAttribute('cx'))).size);
  assert.equal(lanes, 2);
  assert.equal(await picture.locator('.flag').count(), 1);
  assert.equal(await picture.locator('.cut').count(), 1);
});

test('the branch that failed is told from the others', async (t) => {
  const { turn, made } = await drawn(t, { model: false });
  assert.match(await turn(made.at.rewrite).innerText(), /failed/i);
  assert.doesNotMatch(await turn(made.at.second).innerText(), /failed/i);
});

test('a branch can be looked at without going there', async (t) => {
  const { at, page, turn, made } = await drawn(t, { model: false });
  const before = at.records(made.id).length;
  await turn(made.at.rewrite).click();
  await page.getByRole('button', { name: 'Look', exact: true }).click();
  await record(page, made.at.rewrite).waitFor();
  await page.getByText('You are looking at another branch').waitFor();
  assert.equal(await page.getByText('Then move the check.').filter({ visible: true }).locator('xpath=ancestor::article').count(), 0);
  assert.equal(await box(page).count(), 0, 'nothing can be said into the past by mistake');
  await page.getByRole('link', { name: 'Back to where it goes on' }).first().click();
  await page.getByText('Thank you. Write a changelog line.').first().waitFor();
  assert.equal(at.records(made.id).length, before, 'looking changes nothing');
});

test('what can be done with a turn is in sight, and covers no turn', async (t) => {
  const { page, tree, turn, made } = await drawn(t, { model: false });
  for (const n of [made.at.asked, made.at.rewrite, made.at.second]) {
    await turn(n).click();
    const actions = await tree.getByRole('group', { name: `What to do with record ${n}` }).boundingBox();
    assert.ok(actions.y + actions.height <= page.viewportSize().height);
    for (const other of await tree.getByTestId('turn').all()) {
      const place = await other.boundingBox();
      assert.ok(place.y + place.height <= actions.y, 'a turn is covered');
    }
  }
});

test('who is refused a rewind stays where they are', async (t) => {
  const made = branches();
  const at = await scene(t, { transcripts: [made], model: false });
  const page = await (await person(t, { expects: [/status of 409/] })).page();
  await page.route('**/rewind', (route) => route.fulfill({ status: 409, json: { error: { code: 'busy', message: 'a turn is running' } } }));
  await openSession(page, at, made.id, { panel: 'tree', at: made.at.failed });
  await page.getByText('You are looking at another branch').waitFor();
  await page.locator(`[data-testid=turn][data-n="${made.at.asked}"]`).click();
  await page.getByRole('button', { name: 'Rewind to it' }).click();
  await page.getByTestId('notice').getByText('a turn is running').waitFor();
  assert.match(page.url(), new RegExp(`at=${made.at.failed}`));
});

test('an answer that comes at the head is not drawn beneath another branch', async (t) => {
  const made = branches();
  const at = await scene(t, { transcripts: [made], pace: 30 });
  const who = await person(t);
  const [page, other] = [await who.page(), await who.page()];
  await openSession(page, at, made.id, { at: made.at.failed });
  await openSession(other, at, made.id);
  await say(other, '[[long:2000]]');
  await growing(other).waitFor();
  await page.getByText('An answer is coming').waitFor();
  assert.equal(await growing(page).count(), 0);
  await page.getByRole('link', { name: 'where it goes on', exact: true }).click();
  await growing(page).waitFor();
});

test('rewinding goes on from there, and everything else is kept', async (t) => {
  const { at, page, turn, made } = await drawn(t);
  await turn(made.at.asked).click();
  await page.getByRole('button', { name: 'Rewind to it' }).click();
  const records = await at.recorded(made.id, 'the head moved', (all) => heads(all).length === 2);
  assert.equal(heads(records)[1].to, made.at.fork);
  await until('the conversation ends there', async () => (await shown(page)).at(-1)?.[1].startsWith('The loop ends one line early'));
  await say(page, 'A third way.');
  await page.getByText(/ECHO\(\d+ messages\): A third way\./).waitFor();
  await settled(page);
  const third = at.records(made.id).find(({ content }) => content === 'A third way.');
  assert.equal(third.parent >= made.at.fork, true);
  await until('three lanes', async () => (await page.getByTestId('tree').getByRole('img').getAttribute('aria-label')).startsWith('3 branches'));
});

test('a branch begins with a name of its own', async (t) => {
  const { at, page, turn, made } = await drawn(t);
  await turn(made.at.asked).click();
  await page.getByRole('button', { name: 'Branch', exact: true }).click();
  await answer(page, 'calm');
  await at.recorded(made.id, 'the name', (all) => all.some(({ type, name, as }) => type === 'label' && name === 'calm' && as === 'branch'));
  await say(page, 'On the calm branch.');
  await page.getByText(/ECHO\(\d+ messages\): On the calm branch\./).waitFor();
  const tree = await at.ask('GET', `/v1/sessions/${made.id}/tree`);
  assert.equal(tree.current, 'calm');
  await until('it is drawn', async () => /calm/.test(await page.getByTestId('turn').last().innerText()));
});

test('a point gets a name, from the picture and from a record', async (t) => {
  const { at, page, turn, made } = await drawn(t, { model: false });
  await turn(made.at.second).click();
  await page.getByRole('button', { name: 'Name', exact: true }).click();
  await answer(page, 'tests pass');
  await at.recorded(made.id, 'the name', (all) => all.some(({ type, name }) => type === 'label' && name === 'tests pass'));
  await until('it is drawn', async () => /tests pass/.test(await turn(made.at.second).innerText()));
  await record(page, made.at.last).getByRole('button', { name: `Actions for record ${made.at.last}` }).click();
  await page.getByRole('menuitem', { name: 'Checkpoint here' }).click();
  await answer(page, 'the last word');
  const records = await at.recorded(made.id, 'the other name', (all) => all.some(({ type, name }) => type === 'label' && name === 'the last word'));
  assert.equal(records.find(({ name }) => name === 'the last word').to, made.at.last);
});

test('two branches stand side by side, from where they part', async (t) => {
  const { page, turn, made } = await drawn(t, { model: false });
  await turn(made.at.rewrite).click();
  await page.getByRole('button', { name: 'Compare…' }).click();
  await page.getByTestId('turn').last().click();
  await page.getByRole('button', { name: 'Compare with it' }).click();
  const sides = page.getByTestId('side');
  await until('both sides', async () => (await sides.count()) === 2);
  await sides.nth(0).getByText('Rewrite it.').waitFor();
  await sides.nth(1).getByText('Then move the check.').waitFor();
  assert.equal(await sides.nth(0).getByText('Then move the check.').count(), 0);
  assert.equal(await sides.nth(1).getByText('Rewrite it.').count(), 0);
  assert.equal(await page.getByTestId('compare').getByText('The importer drops the last line').count(), 0, 'what both share is not repeated');
  const [left, right] = await Promise.all([sides.nth(0).boundingBox(), sides.nth(1).boundingBox()]);
  assert.ok(Math.abs(left.y - right.y) < 2 && right.x >= left.x + left.width - 2);
  await page.getByRole('button', { name: 'Close the comparison' }).click();
  await page.getByTestId('records').waitFor();
});

test('a fork before the failed branch is a session of its own, and goes on', async (t) => {
  const { at, page, turn, made } = await drawn(t);
  await turn(made.at.rewrite).click();
  await page.getByRole('button', { name: 'Fork before it' }).click();
  const id = await until('another session', () => at.sessions().find((one) => one !== made.id));
  await until('it is open', () => page.url().includes(id));
  await page.getByText('The loop ends one line early').waitFor();
  assert.equal(await page.getByText('Rewrite it.').count(), 0);
  const before = at.records(made.id).length;
  await say(page, 'Move the check instead.');
  await page.getByText(/ECHO\(\d+ messages\): Move the check instead\./).waitFor();
  assert.equal(at.records(made.id).length, before, 'the first session is as it was');
  assert.equal(at.records(id)[0].origin.id, made.id);
});

test('something can be said again in other words', async (t) => {
  const { at, page, made } = await drawn(t);
  await record(page, made.at.second).getByRole('button', { name: `Actions for record ${made.at.second}` }).click();
  await page.getByRole('menuitem', { name: 'Edit and ask again' }).click();
  await until('the words are in the box', async () => (await box(page).inputValue()) === 'Then move the check.');
  await box(page).fill('Then move the check, gently.');
  await box(page).press('Enter');
  await page.getByText(/ECHO\(\d+ messages\): Then move the check, gently\./).waitFor();
  const records = at.records(made.id);
  const before = (one) => {
    const parent = records.find(({ n }) => n === one.parent);
    return parent.type === 'context' ? before(parent) : parent.n;
  };
  assert.equal(before(records.find(({ content }) => content === 'Then move the check, gently.')), made.at.fork);
});

test('the way back from the picture to a record of another branch is a link', async (t) => {
  const { at, page, made } = await drawn(t, { model: false });
  await page.goto(`${at.url}/#/s/${made.id}?n=${made.at.failedCall}`);
  await page.getByText('You are looking at another branch').waitFor();
  await page.getByRole('button', { name: 'Fork from here' }).waitFor();
  await page.getByRole('button', { name: 'Go on from here' }).click();
  await at.recorded(made.id, 'the head moved', (all) => heads(all).length === 2);
  await box(page).waitFor();
});
