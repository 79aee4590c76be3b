// How the page looks and is used: one round trip, dark and light, by keyboard alone, by those who do not see it, on a phone, in any script, and without jumping.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test, { after } from 'node:test';

import { person, stopped } from './lib/browser.mjs';
import { branches, languages, scripts, stories, workshop } from './lib/fixtures/stories.mjs';
import { barriers, shifts, watchShifts } from './lib/measure.mjs';
import { root } from './lib/places.mjs';
import { scene } from './lib/scene.mjs';
import { Transcript } from './lib/transcript.mjs';
import { until } from './lib/until.mjs';
import { address, box, calls, connected, frame, growing, hits, openSession, record, row, rows, say, searchBox, settled } from './lib/views.mjs';

after(stopped);

test('the page is one request of less than 300 KB, and then asks for data only', async (t) => {
  const at = await scene(t, { transcripts: stories(), model: false });
  const who = await person(t);
  const page = await who.page();
  const session = await who.context.newCDPSession(page);
  await session.send('Network.enable');
  const sizes = new Map();
  const names = new Map();
  session.on('Network.requestWillBeSent', ({ requestId, request }) => names.set(requestId, request.url));
  session.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => sizes.set(names.get(requestId), encodedDataLength));
  await page.goto(at.url);
  await rows(page).first().waitFor();
  const [first, ...others] = who.requests.filter((url) => !url.startsWith('data:'));
  assert.equal(first, `${at.url}/`);
  for (const url of others) assert.match(new URL(url).pathname, /^\/(v1\/|ws$)/);
  const size = await until('its size', () => sizes.get(`${at.url}/`));
  assert.ok(size > 10_000 && size < 300_000, `${size} bytes`);
});

test('the document is the one that is checked in, and stands in one answer', async (t) => {
  const at = await scene(t, { model: false });
  const answer = await fetch(at.url);
  const text = await answer.text();
  assert.match(answer.headers.get('content-type'), /^text\/html; charset=utf-8$/i);
  const dist = (name) => readFileSync(path.join(root, 'web/dist', name), 'utf8');
  assert.ok(text.includes(dist('page.css').trim()), 'the style is in it');
  assert.ok(text.includes(dist('page.js').trim().slice(0, 1000)), 'the script is in it');
  assert.doesNotMatch(text, /<(script|link|img)[^>]+(src|href)="?https?:/);
});

const background = (page) => page.evaluate(() => {
  const probe = (element) => getComputedStyle(element).backgroundColor;
  return [document.querySelector('.page'), document.body, document.documentElement].map((element) => element && probe(element)).find((colour) => colour && colour !== 'rgba(0, 0, 0, 0)');
});
const brightness = (colour) => colour.match(/[\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3;
const scaled = (colour) => (/^color\(/.test(colour) ? brightness(colour) * 255 : brightness(colour));

test('dark and light: as the system says, or as somebody chose, who is remembered', async (t) => {
  const at = await scene(t, { transcripts: stories(), model: false });
  const who = await person(t, { colorScheme: 'dark' });
  const page = await who.page(at.url);
  await rows(page).first().waitFor();
  assert.ok(scaled(await background(page)) < 70);
  await page.emulateMedia({ colorScheme: 'light' });
  await until('light with the system', async () => scaled(await background(page)) > 200);
  const choose = page.getByRole('button', { name: /^Colours/ });
  await choose.click();
  await until('dark by choice', async () => scaled(await background(page)) < 70);
  await page.reload();
  await rows(page).first().waitFor();
  assert.ok(scaled(await background(page)) < 70, 'it is remembered');
  await choose.click();
  await page.emulateMedia({ colorScheme: 'dark' });
  await until('light by choice', async () => scaled(await background(page)) > 200);
  await choose.click();
  await until('as the system again', async () => scaled(await background(page)) < 70);
});

test('everything by keyboard: search, open, read, talk, steer', async (t) => {
  const made = branches();
  const at = await scene(t, { transcripts: [made, workshop(), ...languages()] });
  const page = await (await person(t)).page(at.url);
  await rows(page).first().waitFor();
  const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
  await press('/');
  assert.equal(await searchBox(page).evaluate((element) => element === document.activeElement), true);
  await page.keyboard.type('importer');
  await until('the whole word is searched for', async () => /^importer$/i.test(await hits(page).first().locator('mark').first().innerText()));
  await press('ArrowDown', 'Enter');
  await until('the session is open', () => page.url().includes(made.id));
  await connected(page);
  await press('Escape');
  await press('i');
  assert.equal(await box(page).evaluate((element) => element === document.activeElement), true);
  await page.keyboard.type('By keyboard.');
  await press('Enter');
  await page.getByText(/ECHO\(\d+ messages\): By keyboard\./).waitFor();
  await settled(page);
  await press('Escape');
  await press('t');
  await page.getByTestId('tree').waitFor();
  await press('c');
  await page.getByTestId('context').waitFor();
  await press('a');
  await page.getByTestId('about').waitFor();
  await press('a');
  await page.getByTestId('about').waitFor({ state: 'detached' });
  await press('Home');
  await press('End');
  await press('u');
  await page.getByRole('main', { name: 'Usage' }).waitFor();
  await press('n');
  await page.getByRole('main', { name: 'New conversation' }).waitFor();
  await until('the box has the focus', () => box(page).evaluate((element) => element === document.activeElement));
});

test('the shortcuts are shown, all of them, and the focus comes back', async (t) => {
  const at = await scene(t, { transcripts: stories(), model: false });
  const page = await (await person(t)).page(at.url);
  await rows(page).first().waitFor();
  await rows(page).first().focus();
  await page.keyboard.press('?');
  const help = page.getByRole('dialog', { name: 'Shortcuts' });
  await help.waitFor();
  const keys = await help.locator('kbd').allInnerTexts();
  for (const key of ['/', 'n', 'i', 't', 'c', 'a', 'u', 'd', '?', 'Home', 'End']) assert.ok(keys.includes(key), `${key} is shown`);
  // What has a shortcut says so where it is.
  const named = await page.locator('[aria-keyshortcuts]').evaluateAll((all) => all.map((element) => element.getAttribute('aria-keyshortcuts')));
  for (const key of named) assert.ok(keys.includes(key) || keys.includes(key.replace('Escape', 'Esc')), `${key} is in the list`);
  await page.keyboard.press('Escape');
  await help.waitFor({ state: 'detached' });
  assert.equal(await rows(page).first().evaluate((element) => element === document.activeElement), true);
});

test('shortcuts are letters again where somebody writes', async (t) => {
  const at = await scene(t, { transcripts: stories(), model: false });
  const page = await (await person(t)).page(`${at.url}/#/new`);
  await box(page).focus();
  await page.keyboard.type('/ntcaud?');
  assert.equal(await box(page).inputValue(), '/ntcaud?');
  assert.match(page.url(), /#\/new$/);
});

test('every control that has the focus can be seen to have it', async (t) => {
  const made = workshop();
  const at = await scene(t, { transcripts: [made], model: false });
  const page = await (await person(t)).page();
  await openSession(page, at, made.id, { panel: 'about' });
  await page.getByTestId('about').waitFor();
  const bare = new Set();
  await page.evaluate(() => document.activeElement?.blur());
  let count = 0;
  for (; count < 60; count++) {
    await page.keyboard.press('Tab');
    const bad = await page.evaluate(() => {
      const element = document.activeElement;
      if (!element || element === document.body) return 'end';
      const style = getComputedStyle(element);
      const isMarked = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none';
      return isMarked ? '' : element.outerHTML.slice(0, 120);
    });
    if (bad === 'end') break;
    if (bad) bare.add(bad);
  }
  assert.ok(count > 10, `${count} stops`);
  assert.deepEqual([...bare], []);
});

/** Every view, by name: what to open, and what to wait for. */
const views = (at, made, tools) => ({
  list: async (page) => {
    await page.goto(at.url);
    await rows(page).first().waitFor();
  },
  filters: async (page) => {
    await page.goto(at.url);
    await page.getByRole('button', { name: 'Show filters' }).click();
    await page.getByTestId('filters').waitFor();
  },
  search: async (page) => {
    await page.goto(at.url);
    await searchBox(page).fill('importer');
    await hits(page).first().waitFor();
  },
  conversation: async (page) => {
    await openSession(page, at, made.id);
    await record(page, made.at.last).waitFor();
  },
  tools: async (page) => {
    await openSession(page, at, tools.id, { n: tools.at.bad });
    await until('an open call', async () => (await calls(page).count()) > 2);
    for (const summary of await page.locator('summary').all()) await summary.click({ timeout: 2000 }).catch(() => undefined);
  },
  actions: async (page) => {
    await openSession(page, at, made.id);
    await record(page, made.at.last).getByRole('button', { name: /^Actions/ }).click();
    await page.getByRole('menuitem', { name: 'Raw record' }).waitFor();
  },
  tree: async (page) => {
    await openSession(page, at, made.id, { panel: 'tree' });
    await page.getByTestId('turn').first().click();
    await page.getByRole('button', { name: 'Rewind to it' }).waitFor();
  },
  compare: async (page) => {
    await page.goto(address(at, made.id, { panel: 'compare', at: made.at.failed, with: made.at.last }));
    await page.getByTestId('side').nth(1).getByText('Then move the check.').waitFor();
  },
  context: async (page) => {
    await openSession(page, at, made.id, { panel: 'context' });
    await page.getByTestId('context').waitFor();
  },
  about: async (page) => {
    await openSession(page, at, made.id, { panel: 'about' });
    await page.getByTestId('about').waitFor();
  },
  dialog: async (page) => {
    await openSession(page, at, made.id, { panel: 'about' });
    await page.getByTestId('about').getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('dialog').waitFor();
  },
  usage: async (page) => {
    await page.goto(`${at.url}/#/usage`);
    await page.getByTestId('chart').waitFor();
  },
  new: async (page) => {
    await page.goto(`${at.url}/#/new`);
    await box(page).waitFor();
  },
  question: async (page) => {
    await page.goto(`${at.url}/#/new`);
    await say(page, '[[bash:ls]]');
    await page.getByTestId('question').waitFor();
  },
});

/** What is wider than the screen, and what cannot be reached because it is beside it. To be run in the page. */
function beyond() {
  const over = [...document.querySelectorAll('button, a, input, textarea, select')].filter((element) => {
    const { left, right, width } = element.getBoundingClientRect();
    if (!width || !element.checkVisibility({ visibilityProperty: true })) return false;
    // What scrolls by itself may be wider inside.
    for (let around = element.parentElement; around; around = around.parentElement) if (['auto', 'scroll'].includes(getComputedStyle(around).overflowX)) return false;
    return right > innerWidth + 1 || left < -1;
  });
  const found = over.map((element) => element.outerHTML.slice(0, 100));
  if (document.documentElement.scrollWidth > innerWidth) found.push(`${document.documentElement.scrollWidth} pixels of ${innerWidth}`);
  return found;
}

for (const size of ['desktop', 'phone']) {
  for (const colorScheme of ['light', 'dark']) {
    test(`no serious barrier in any view, and nothing beside the screen: ${size}, ${colorScheme}`, async (t) => {
      const [made, tools] = [branches(), workshop()];
      const at = await scene(t, { transcripts: [made, tools, ...languages()] });
      const who = await person(t, { size, colorScheme });
      for (const [name, open] of Object.entries(views(at, made, tools))) {
        const page = await who.page();
        await open(page);
        assert.deepEqual(await barriers(page), [], `${name}, ${size}, ${colorScheme}`);
        assert.deepEqual(await page.evaluate(beyond), [], `${name}, ${size}, ${colorScheme}`);
        await page.close();
      }
    });
  }
}

test('no serious barrier where a token is asked for', async (t) => {
  const at = await scene(t, { tokens: ['ada'], model: false });
  for (const colorScheme of ['light', 'dark']) {
    const who = await person(t, { colorScheme, size: 'phone', expects: [/status of 401/] });
    const page = await who.page(at.url);
    await page.getByLabel('Token').waitFor();
    assert.deepEqual(await barriers(page), []);
  }
});

test('on a phone: from the list into a conversation, a word, and back', async (t) => {
  const made = branches();
  const at = await scene(t, { transcripts: [made, ...languages()] });
  const page = await (await person(t, { size: 'phone' })).page(at.url);
  await row(page, made.id).tap();
  await connected(page);
  assert.equal(await searchBox(page).isVisible(), false);
  await box(page).tap();
  // A keyboard of glass has no Shift: its Enter is a line break.
  await page.keyboard.type('Hello.');
  await page.keyboard.press('Enter');
  await page.keyboard.type('From the phone.');
  assert.equal(await box(page).inputValue(), 'Hello.\nFrom the phone.');
  await page.getByRole('button', { name: 'Send' }).tap();
  await page.getByText(/ECHO\(\d+ messages\): Hello\.\s+From the phone\./).waitFor();
  const where = await box(page).boundingBox();
  assert.ok(where.y + where.height <= 844, 'the box is on the screen');
  // Letters of less than 16 pixels would make a phone zoom in.
  assert.ok((await box(page).evaluate((element) => parseFloat(getComputedStyle(element).fontSize))) >= 16);
  const small = await page.evaluate(() => [...document.querySelectorAll('header button, header a.icon-button, form.prompt button')].map((element) => [element.getAttribute('aria-label') ?? element.textContent, element.getBoundingClientRect()]).filter(([, { width, height }]) => width && (width < 24 || height < 24)).map(([name]) => name));
  assert.deepEqual(small, [], 'too small for a finger');
  await page.getByRole('link', { name: 'All sessions' }).tap();
  await searchBox(page).waitFor();
});

test('on a phone: the way back closes what covers a conversation', async (t) => {
  const made = branches();
  const at = await scene(t, { transcripts: [made], model: false });
  const page = await (await person(t, { size: 'phone' })).page(at.url);
  await row(page, made.id).tap();
  await connected(page);
  await page.getByTestId('open-tree').tap();
  await page.getByTestId('tree').waitFor();
  await page.goBack();
  await page.getByTestId('tree').waitFor({ state: 'detached' });
  await frame(page).waitFor();
  // Closed by hand, it leaves nothing behind on the way.
  await page.getByTestId('open-tree').tap();
  await page.getByTestId('tree').getByRole('button', { name: 'Close' }).tap();
  await page.getByTestId('tree').waitFor({ state: 'detached' });
  await page.goBack();
  await searchBox(page).waitFor();
});

test('columns of a table stand as they were told to, also on a phone', async (t) => {
  const made = workshop();
  const at = await scene(t, { transcripts: [made], model: false });
  for (const size of ['desktop', 'phone']) {
    const page = await (await person(t, { size })).page();
    await openSession(page, at, made.id, { n: made.at.thinking + 1 });
    const answer = record(page, made.at.thinking + 1);
    await answer.getByRole('cell').first().waitFor();
    const cells = await answer.locator('th, td').evaluateAll((all) => all.map((cell) => [getComputedStyle(cell).display, getComputedStyle(cell).textAlign, cell.checkVisibility()].join(' ')));
    const wanted = ['left', 'right', 'center'].map((side) => `table-cell ${side} true`);
    assert.deepEqual(cells, [...wanted, ...wanted], size);
  }
});

test('code has letters of one width in an answer of any script', async (t) => {
  const made = new Transcript({ key: 'main:web:code', begun: Date.now() - 1e6 });
  made.user('コードを見せて。');
  made.assistant('これです。\n\n```rust\nfn main() { println!("hi"); }\n```\n\n`let` は予約語です。');
  const at = await scene(t, { transcripts: [made], model: false });
  const page = await (await person(t)).page();
  await openSession(page, at, made.id);
  const coloured = page.locator('pre span[class^=hljs-]').first();
  await coloured.waitFor();
  const fonts = await page.locator('pre code, pre span, p code').evaluateAll((all) => [...new Set(all.map((element) => getComputedStyle(element).fontFamily))]);
  assert.equal(fonts.length, 1, fonts.join('\n'));
  assert.match(fonts[0], /monospace/);
});

test('what a box says before anything is typed can be read', async (t) => {
  const at = await scene(t, { model: false });
  const page = await (await person(t, { colorScheme: 'dark' })).page(`${at.url}/#/new`);
  await box(page).waitFor();
  const [soft, hint] = await box(page).evaluate((element) => {
    const probe = document.body.appendChild(document.createElement('i'));
    probe.className = 'hint';
    const { color, opacity } = getComputedStyle(element, '::placeholder');
    return [`${getComputedStyle(probe).color} 1`, `${color} ${opacity}`];
  });
  assert.equal(hint, soft);
});

test('Japanese, Chinese, Korean and right-to-left text are what they are', async (t) => {
  const all = languages();
  const at = await scene(t, { transcripts: all, model: false });
  const page = await (await person(t)).page(at.url);
  const wanted = { japanese: 'ja', chinese: 'zh', korean: 'ko' };
  for (const made of all) {
    const name = made.key.split(':')[2];
    const { title, said, answer } = scripts[name];
    const shown = row(page, made.id).getByText(title, { exact: true });
    await shown.waitFor();
    if (wanted[name]) assert.match(await shown.getAttribute('lang'), new RegExp(`^${wanted[name]}`));
    await openSession(page, at, made.id);
    for (const words of [said, answer]) await page.getByText(words, { exact: true }).waitFor();
    const direction = await page.getByText(said, { exact: true }).evaluate((element) => getComputedStyle(element).direction);
    assert.equal(direction, ['arabic', 'hebrew'].includes(name) ? 'rtl' : 'ltr', name);
    if (wanted[name]) {
      const language = await page.getByText(said, { exact: true }).evaluate((element) => element.closest('[lang]').lang);
      assert.match(language, new RegExp(`^${wanted[name]}`));
    }
  }
});

test('a long line of Chinese is broken, and nothing is wider than its place', async (t) => {
  const [, made] = languages();
  made.user('这是一个没有空格的很长的句子'.repeat(60));
  made.assistant(`\`${'很长的代码'.repeat(80)}\``);
  const at = await scene(t, { transcripts: [made], model: false });
  const page = await (await person(t, { size: 'phone' })).page();
  await openSession(page, at, made.id);
  await page.getByText('很长的代码').first().waitFor();
  assert.ok(await frame(page).evaluate((element) => element.scrollWidth <= element.clientWidth + 1));
});

test('nothing jumps while an answer comes', async (t) => {
  const made = branches();
  const at = await scene(t, { transcripts: [made], pace: 40 });
  const who = await person(t);
  await watchShifts(who.context);
  const page = await who.page();
  await openSession(page, at, made.id);
  await record(page, made.at.last).waitFor();
  await say(page, '[[long:10]]');
  await settled(page);
  const since = await page.evaluate(() => performance.now());
  await say(page, '[[long:400]]');
  await growing(page).waitFor();
  await settled(page);
  await until('the answer is whole', () => at.records(made.id).filter(({ type, state }) => type === 'turn' && state === 'done').length >= 4);
  const { total, moved } = await shifts(page, since);
  assert.ok(total < 0.02, `${total}\n${moved.join('\n')}`);
});

test('nothing jumps while the list is loaded, and while it is looked at again', async (t) => {
  const at = await scene(t, { transcripts: stories(), model: false });
  const who = await person(t);
  await watchShifts(who.context);
  const page = await who.page(at.url);
  await rows(page).first().waitFor();
  at.run(['new', '--key', 'main:cli:late']);
  await page.getByText('main:cli:late').waitFor();
  const { total, moved } = await shifts(page);
  // One row more is one row lower for the others.
  assert.ok(total < 0.1, `${total}\n${moved.join('\n')}`);
});

test('the page tells of itself without a script, too', async (t) => {
  const at = await scene(t, { model: false });
  const who = await person(t, { javaScriptEnabled: false });
  const page = await who.page(at.url);
  const told = page.locator('noscript');
  assert.match(await told.textContent(), /This page needs JavaScript/);
  assert.ok((await told.boundingBox())?.height > 10, 'it is seen');
});
