// Going through a whole conversation as a reader would who opens everything: from its beginning to its end, a screen at a time.

import { frame } from './views.mjs';
import { until } from './until.mjs';

/** What a reader meets on the way: `visit` runs in the page at every stop and returns what it found. */
export async function walk(page, visit, { opens = true } = {}) {
  const found = [];
  await frame(page).focus();
  await page.keyboard.press('Home');
  await until('the beginning', () => frame(page).evaluate((element) => element.scrollTop === 0 && element.querySelectorAll('.unread').length === 0));
  for (let stop = 0; ; stop++) {
    if (stop > 2000) throw new Error('the conversation has no end');
    if (opens) await openAll(page);
    await until('what is in sight is read', () => frame(page).evaluate((element) => element.querySelectorAll('.unread').length === 0));
    found.push(await page.evaluate(visit));
    const isEnd = await frame(page).evaluate((element) => {
      const before = element.scrollTop;
      element.scrollTop += element.clientHeight * 0.7;
      return Math.abs(element.scrollTop - before) < 1;
    });
    if (isEnd) return found;
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  }
}

/** Opens everything that is folded and in the document. */
export async function openAll(page) {
  for (let round = 0; round < 20; round++) {
    const closed = await page.evaluate(() => {
      const folded = [...document.querySelectorAll('details:not([open]) > summary')];
      folded.slice(0, 50).forEach((summary) => summary.click());
      return folded.length;
    });
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    if (closed === 0) return;
  }
}
