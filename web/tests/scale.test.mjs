// Very many sessions, and very many records: all of them within reach, few of them in the document, and no long task on the way.

import assert from 'node:assert/strict';
import test, { after } from 'node:test';

import { person, stopped } from './lib/browser.mjs';
import { long, rare } from './lib/fixtures/long.mjs';
import { many, planned } from './lib/fixtures/many.mjs';
import { longestTask, nodes } from './lib/measure.mjs';
import { scene } from './lib/scene.mjs';
import { until } from './lib/until.mjs';
import { call, frame, hits, openSession, record, rows, searchBox } from './lib/views.mjs';

after(stopped);

const sessions = 100_000;
const records = 100_000;
/** What grows with the number of rows takes many times this; what does not takes a twentieth of it on a machine that is free. */
const longest = 1000;
/** What is on the screen, and some of what is around it. */
const mostNodes = 8000;

test('100,000 sessions: scrolled to the end without a pause, with few of them in the document', async (t) => {
  const at = await scene(t, { folder: many(sessions), model: false });
  const page = await (await person(t)).page(at.url);
  await rows(page).first().waitFor();
  assert.match(await rows(page).first().innerText(), new RegExp(planned(sessions - 1, sessions).title));
  const list = page.getByTestId('sessions');
  let most = 0;
  const scroll = async () => {
    await until('the oldest is there', async () => {
      most = Math.max(most, await nodes(page));
      const isThere = await list.evaluate((element) => {
        // As far as it is known; the rest comes meanwhile.
        element.scrollTop = element.scrollHeight;
        return [...element.querySelectorAll('[data-testid=session]')].some((row) => row.textContent.includes('Repair the importer 0'));
      });
      return isThere;
    }, { within: 240_000 });
  };
  const task = await longestTask(page, scroll);
  t.diagnostic(`the longest task has ${task} ms; at most ${most} nodes`);
  assert.ok(most < mostNodes, `${most} nodes`);
  assert.ok(task < longest, `a task of ${task} ms`);
  // And back, through the middle.
  const middle = await longestTask(page, async () => {
    for (let part = 20; part >= 0; part--) {
      await list.evaluate((element, share) => (element.scrollTop = element.scrollHeight * share), part / 20);
      await until('rows', async () => (await rows(page).count()) > 5);
    }
  });
  t.diagnostic(`on the way back, ${middle} ms`);
  assert.ok(middle < longest, `a task of ${middle} ms`);
});

test('100,000 sessions: one is found as it is typed, and filters are quick', async (t) => {
  const at = await scene(t, { folder: many(sessions), model: false });
  const page = await (await person(t)).page(at.url);
  await rows(page).first().waitFor();
  const task = await longestTask(page, async () => {
    await searchBox(page).pressSequentially('case 4711', { delay: 30 });
    await until('it is found', async () => /4711/.test(await hits(page).first().innerText()));
    await searchBox(page).fill('数据库');
    await until('Chinese as well', async () => /数据库/.test(await hits(page).first().locator('mark').first().innerText()));
  });
  t.diagnostic(`a task of ${task} ms`);
  assert.ok(task < longest, `a task of ${task} ms`);
});

test('100,000 records: opens at the end, jumps to the start, and leads to the middle', async (t) => {
  const made = long(records);
  const at = await scene(t, { transcripts: [made], model: false });
  const page = await (await person(t)).page();
  const { rounds, first, middle, last } = made.landmarks;
  const most = async () => assert.ok((await nodes(page)) < mostNodes, `${await nodes(page)} nodes`);
  const opening = await longestTask(page, async () => {
    await openSession(page, at, made.id);
    await page.getByText(`Answer ${rounds - 1}:`).first().waitFor();
  });
  t.diagnostic(`opening: a task of ${opening} ms`);
  assert.ok(opening < 2 * longest, `a task of ${opening} ms`);
  await until('it begins at the end', () => frame(page).evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight < 5));
  await most();
  const jumping = await longestTask(page, async () => {
    await frame(page).focus();
    await page.keyboard.press('Home');
    await record(page, first).getByText('Question 0:').waitFor();
    await page.keyboard.press('End');
    await record(page, last).waitFor();
  });
  t.diagnostic(`jumping: a task of ${jumping} ms`);
  assert.ok(jumping < longest, `a task of ${jumping} ms`);
  await most();
  await openSession(page, at, made.id, { n: middle });
  await record(page, middle).waitFor();
  await until('it is in sight', () => record(page, middle).evaluate((element) => element.getBoundingClientRect().top > 0 && element.getBoundingClientRect().bottom < innerHeight));
  await most();
});

test('100,000 records: scrolled through a part, smoothly', async (t) => {
  const made = long(records);
  const at = await scene(t, { transcripts: [made], model: false });
  const page = await (await person(t)).page();
  await openSession(page, at, made.id, { n: made.landmarks.middle });
  await record(page, made.landmarks.middle).waitFor();
  await frame(page).hover();
  const seen = new Set();
  const task = await longestTask(page, async () => {
    for (let step = 0; step < 120; step++) {
      await page.mouse.wheel(0, step < 60 ? 700 : -900);
      const shown = await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve([...document.querySelectorAll('[data-testid=record]')].map((element) => element.dataset.n))))));
      for (const n of shown) seen.add(n);
      // A server that stands still shows nothing, however smoothly.
      if (step % 10 === 9) await until('what is in sight is read', () => frame(page).evaluate((element) => element.querySelectorAll('.unread').length === 0));
    }
  });
  t.diagnostic(`scrolling: a task of ${task} ms`);
  assert.ok(seen.size > 150, `${seen.size} records came by`);
  assert.ok(task < longest, `a task of ${task} ms`);
  assert.ok((await nodes(page)) < mostNodes);
});

test('100,000 records: a word in the middle of a tool\'s output is found and shown', async (t) => {
  const made = long(records);
  const at = await scene(t, { transcripts: [made], model: false });
  const page = await (await person(t)).page(at.url);
  await searchBox(page).fill(rare);
  await hits(page).first().click();
  const it = call(page, made.landmarks.middle + 1);
  await it.getByText(`Here lies the ${rare}.`).waitFor();
  await until('it is in sight', () => it.evaluate((element) => element.getBoundingClientRect().top < innerHeight && element.getBoundingClientRect().bottom > 0));
});
