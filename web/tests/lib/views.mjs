// Where things are in the page: by role and name where a person would look for them so, by their test's name otherwise.

import { until } from './until.mjs';

/** The address of a session, perhaps with what is looked at there: `{ n: 7, panel: 'tree' }`. */
export function address(scene, id, query = {}) {
  const asked = new URLSearchParams(query).toString();
  return `${scene.url}/#/s/${id}${asked ? `?${asked}` : ''}`;
}

export const rows = (page) => page.getByTestId('session');
export const hits = (page) => page.getByTestId('hit');
export const row = (page, id) => page.locator(`[data-testid=session][data-id="${id}"]`);
export const searchBox = (page) => page.getByRole('searchbox', { name: 'Search what was said' });
export const frame = (page) => page.getByRole('log', { name: 'Conversation' });
export const record = (page, n) => page.locator(`#r${n}`);
export const calls = (page) => page.getByTestId('call');
export const call = (page, n) => page.locator(`#r${n}`).getByTestId('call');
export const growing = (page) => page.getByTestId('growing');
/** The words of an answer that is coming, as far as they have come; nothing if none is. */
export const coming = (page) => page.evaluate(() => document.querySelector('[data-testid=growing] .markdown')?.innerText ?? '');
export const pending = (page) => page.getByTestId('pending');
export const box = (page) => page.getByRole('textbox', { name: 'Say something' });
export const standing = (page) => page.getByTestId('standing');

/** Opens a session, and waits until it can be read and talked to. */
export async function openSession(page, scene, id, query) {
  await page.goto(address(scene, id, query));
  await connected(page);
}

/** Waits until the conversation is there and its connection stands. */
export async function connected(page) {
  await frame(page).waitFor();
  await standing(page).waitFor({ state: 'detached' });
}

/** Says something in the box of the conversation: by key, or where there is none, by finger. */
export async function say(page, words) {
  await box(page).fill(words);
  if (await page.evaluate(() => matchMedia('(pointer: coarse)').matches)) await page.getByRole('button', { name: 'Send' }).tap();
  else await box(page).press('Enter');
}

/** Waits until nothing is going on and nothing waits. */
export async function settled(page) {
  // While a new conversation is fetched there is nothing to be seen of its turn either.
  await frame(page).waitFor();
  await until('the turn is over', async () => {
    const [aborts, waiting, coming] = await Promise.all([
      page.getByRole('button', { name: 'Abort' }).count(),
      pending(page).count(),
      growing(page).count(),
    ]);
    return aborts + waiting + coming === 0;
  });
}

/** What is shown as said, in order: `[['user', words], …]`. Only for conversations that fit on the screen and a little more. */
export async function shown(page) {
  return page.evaluate(() => {
    const articles = [...document.querySelectorAll('[data-testid=record].user, [data-testid=record].assistant')];
    const placed = articles.map((article) => [Number(article.dataset.n), article.classList.contains('user') ? 'user' : 'assistant', article.querySelector('.markdown')?.innerText.trim() ?? '']);
    placed.sort((a, b) => a[0] - b[0]);
    return placed.map(([, who, words]) => [who, words]);
  });
}

/** Waits until what was done is drawn. */
export const drawn = (page) => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve)))));

/** The rows of the list that are there now, from above. */
export const listed = (page) => page.evaluate(() => {
  const all = [...document.querySelectorAll('[data-testid=session]')];
  all.sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top);
  return all.map((element) => element.dataset.id);
});

/**
 * From now on, every frame is looked at for words that are shown twice as said by the same side: in a record and beside it. `doubled` returns what was.
 */
export async function watchDoubles(page, words) {
  await page.evaluate((all) => {
    globalThis.__doubled = [];
    const look = () => {
      for (const word of all) {
        for (const side of ['user', 'assistant']) {
          const found = [...document.querySelectorAll(`article.${side}`)].filter((article) => article.innerText.includes(word));
          if (found.length > 1) globalThis.__doubled.push(`${word} ${side}: ${found.map((article) => article.className).join(' | ')}`);
        }
      }
      requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }, words);
}

export const doubled = (page) => page.evaluate(() => [...new Set(globalThis.__doubled)]);
