// As somebody would who is new here: an old conversation is found by a word of a tool's output, the branch that failed is seen, a fork begins before it, and it goes on
// from the phone.

import assert from 'node:assert/strict';
import test, { after } from 'node:test';

import { person, stopped } from './lib/browser.mjs';
import { branches, found, stories } from './lib/fixtures/stories.mjs';
import { scene } from './lib/scene.mjs';
import { until } from './lib/until.mjs';
import { box, calls, connected, hits, row, rows, searchBox, settled, shown } from './lib/views.mjs';

after(stopped);

test('find it, see what failed, fork before it, go on from the phone', async (t) => {
  const made = branches();
  const at = await scene(t, { transcripts: stories(), pace: 10 });
  const desk = await (await person(t)).page(at.url);
  await rows(desk).first().waitFor();
  await searchBox(desk).fill(found);
  await hits(desk).first().click();
  await calls(desk).first().getByText(found).waitFor();
  await desk.getByTestId('open-tree').click();
  const failed = desk.getByTestId('turn').filter({ hasText: 'failed' });
  await failed.waitFor();
  assert.equal(await failed.getAttribute('data-n'), String(made.at.rewrite));
  await failed.click();
  await desk.getByRole('button', { name: 'Fork before it' }).click();
  const fork = await until('a fork', () => at.sessions().find((id) => at.records(id)[0].origin?.id === made.id));
  await until('it is open', () => desk.url().includes(fork));

  const phone = await (await person(t, { size: 'phone', colorScheme: 'dark' })).page(at.url);
  await row(phone, fork).tap();
  await connected(phone);
  await phone.getByText('The loop ends one line early').waitFor();
  await box(phone).tap();
  await phone.keyboard.type('Move the check, then.');
  await phone.getByRole('button', { name: 'Send' }).tap();
  await phone.getByText(/ECHO\(\d+ messages\): Move the check, then\./).waitFor();
  await settled(phone);
  // On the desk it was seen as it happened.
  await desk.getByText(/ECHO\(\d+ messages\): Move the check, then\./).waitFor();
  await settled(desk);
  assert.deepEqual((await shown(phone)).slice(-2), (await shown(desk)).slice(-2));
  assert.deepEqual((await shown(phone)).slice(-2), at.said(fork).slice(-2));
});
