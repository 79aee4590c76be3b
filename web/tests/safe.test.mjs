// Safe: what is stored is text and stays text, whoever wrote it; secrets are hidden until somebody asks; a token is where no script can read it.

import assert from 'node:assert/strict';
import test, { after } from 'node:test';

import { person, stopped } from './lib/browser.mjs';
import { heavy, heavyOne, hidden, hostile, secretive, secrets, texts, word } from './lib/fixtures/hostile.mjs';
import { branches, ordinary } from './lib/fixtures/stories.mjs';
import { longestTask } from './lib/measure.mjs';
import { scene } from './lib/scene.mjs';
import { Transcript } from './lib/transcript.mjs';
import { until } from './lib/until.mjs';
import { address, coming, connected, frame, hits, openSession, record, row, rows, say, searchBox, settled } from './lib/views.mjs';
import { openAll, walk } from './lib/walk.mjs';

after(stopped);

/** What must never be in the document, told as words; and whether anything ran. To be run in the page. */
function suspicious() {
  const found = [];
  if (globalThis.__ran !== undefined) found.push('a script of the transcript ran');
  if ({}.polluted !== undefined || {}.isAdmin !== undefined) found.push('all objects were changed');
  const root = document.getElementById('page');
  for (const element of root.querySelectorAll('*')) {
    const tag = element.tagName.toLowerCase();
    if (['script', 'style', 'link', 'meta', 'base', 'iframe', 'frame', 'object', 'embed', 'applet', 'math', 'template', 'portal', 'audio', 'video', 'marquee'].includes(tag)) found.push(`<${tag}>`);
    for (const { name, value } of element.attributes) {
      if (name.startsWith('on')) found.push(`${tag} ${name}=${value.slice(0, 60)}`);
      if (['href', 'src', 'xlink:href', 'action', 'formaction', 'srcset', 'srcdoc', 'poster', 'data', 'background', 'ping'].includes(name)) {
        const isPicture = tag === 'img' && name === 'src' && /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*$/.test(value);
        const isLink = tag === 'a' && name === 'href' && /^(https?:\/\/|mailto:|#\/)/.test(value);
        if (!isPicture && !isLink) found.push(`${tag} ${name}=${value.slice(0, 80)}`);
        if (isLink && !value.startsWith('#') && !/noopener/.test(element.rel)) found.push(`a link without noopener: ${value.slice(0, 80)}`);
      }
      // The page sets places and sizes of its own rows, and nothing else.
      if (name === 'style' && (element.closest('.markdown, pre, .call, figure') || /url|@|position|expression|var\(/.test(value))) found.push(`${tag} style=${value}`);
      if (name === 'id' && !/^(r\d+|page|search|prompt|agents)$/.test(value)) found.push(`${tag} id=${value.slice(0, 40)}`);
      if (name === 'title' || name.startsWith('aria-') || name === 'alt') if (/[\u202A-\u202E\u2066-\u2069]/.test(value)) found.push(`${tag} ${name} turns text round`);
    }
  }
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) if (/[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F\u202A-\u202E\u2066-\u2069]/.test(walker.currentNode.data)) found.push(`a raw control character: ${JSON.stringify(walker.currentNode.data.slice(0, 40))}`);
  if (/[\u202A-\u202E\u2066-\u2069]/.test(document.title)) found.push('the title of the page turns text round');
  if (root.getBoundingClientRect().width === 0 || getComputedStyle(document.body).display === 'none') found.push('the page was hidden');
  if (document.querySelectorAll('#page').length !== 1) found.push('a second page');
  return [...new Set(found)];
}

/** No request left for any other place. */
const stayed = (who, at) => {
  const own = new URL(at.url).host;
  const left = who.requests.filter((url) => !url.startsWith('data:') && !url.startsWith('blob:') && new URL(url).host !== own);
  assert.deepEqual(left, []);
  assert.equal(who.context.pages().length, 1, 'no window was opened');
};

test('a hostile conversation: nothing runs, loads or styles, and everything can be read', async (t) => {
  const made = hostile();
  const at = await scene(t, { transcripts: [made], model: false });
  const who = await person(t);
  const page = await who.page();
  await openSession(page, at, made.id);
  const opener = page.getByRole('button', { name: /open the originals/ });
  if ((await opener.count()) > 0) await opener.first().click();
  const stops = await walk(page, `(() => ({ wrong: (${suspicious})(), words: document.querySelector('[data-testid=records]').innerText }))()`);
  assert.deepEqual([...new Set(stops.flatMap(({ wrong }) => wrong))], []);
  const all = stops.map(({ words }) => words).join('\n');
  for (const name of Object.keys(texts)) assert.ok(all.includes(word(name)), `${word(name)} can be read`);
  for (const name of ['seenPolluted', 'seenSurrogate']) assert.ok(all.includes(name), `${name} can be read`);
  // Markup is shown as it was written.
  for (const name of ['script', 'image', 'svg', 'iframe', 'style', 'classes', 'form', 'object', 'meta', 'details']) assert.ok(all.includes(texts[name]), `${name} is shown as text`);
  assert.match(all, /Damage:/, 'lines that are no records are told of');
  stayed(who, at);
});

test('what a tool gave is shown character by character', async (t) => {
  const made = hostile();
  const at = await scene(t, { transcripts: [made], model: false });
  const page = await (await person(t)).page();
  await page.goto(address(at, made.id, { n: made.at.script.call }));
  await connected(page);
  await page.getByRole('button', { name: 'Show secrets' }).click();
  // What cannot be seen has a name, of which nothing is left here; line ends are all the same.
  const unseen = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u200B\u200E\u200F\u202A-\u202E\u2060-\u206F\uFEFF\uFFF9-\uFFFB\u180E\u00AD\u{E0000}-\u{E007F}]/gu;
  const plain = (text) => text.replace(/\r\n|[\u2028\u2029\u0085]/g, '\n').replace(unseen, '').replace(/[\u2400-\u2421]|\u2039[0-9A-F]{4,6}\u203A/g, '').replace(/\s+/g, ' ').trim();
  for (const name of Object.keys(texts)) {
    await page.goto(address(at, made.id, { n: made.at[name].call }));
    const output = record(page, made.at[name].call).locator('pre').last();
    const wanted = plain(`${word(name)} ${texts[name]}\n\n${word(name)} ends`);
    await until(`${name} is shown as it was`, async () => plain(await output.evaluate((element) => element.textContent)) === wanted);
  }
});

test('characters that hide or turn text round are shown by their names', async (t) => {
  const made = hostile();
  const at = await scene(t, { transcripts: [made], model: false });
  const page = await (await person(t)).page();
  for (const [name, marks] of [['bidi', ['202E', '2066', '2067', '202A']], ['zeroWidth', ['200B', 'FEFF']], ['terminal', ['\u241B']], ['controls', ['\u2407', '\u2421', '009B']]]) {
    await page.goto(address(at, made.id, { n: made.at[name].user }));
    await until(`${name} has names`, async () => {
      const shown = await record(page, made.at[name].user).innerText();
      return marks.every((mark) => shown.includes(mark));
    });
  }
});

test('hostile names and titles are text in the list, in searches, in the tree, in the context, in the facts', async (t) => {
  const made = hostile();
  const at = await scene(t, { transcripts: [made, ...ordinary(2)], model: false });
  const who = await person(t);
  const page = await who.page(at.url);
  const clean = async (where) => assert.deepEqual(await page.evaluate(`(${suspicious})()`), [], where);
  await row(page, made.id).waitFor();
  assert.match(await row(page, made.id).innerText(), /<img src=x onerror=globalThis\.__ran=1>/);
  await clean('the list');
  for (const words of ['seenScript', 'seenSvg', 'seenBidi', 'seenTerminal']) {
    await searchBox(page).fill(words);
    await until(`hits of ${words}`, async () => (await hits(page).first().locator('mark').first().innerText()) === words);
    await clean(`a search for ${words}`);
  }
  await searchBox(page).fill('');
  for (const panel of ['tree', 'context', 'about']) {
    await openSession(page, at, made.id, { panel });
    await page.getByTestId(panel).waitFor();
    await until(`${panel} is there`, async () => (await page.getByTestId(panel).innerText()).length > 100);
    await clean(panel);
  }
  await page.goto(`${at.url}/#/usage`);
  await page.getByTestId('chart').waitFor();
  await page.getByLabel('Days').selectOption('365');
  await page.getByRole('rowheader', { name: '<script>globalThis.__ran=1</script>' }).waitFor();
  await clean('usage');
  await page.goto(address(at, made.id, { panel: 'compare', at: made.at.script.user, with: made.at.links.assistant }));
  await page.getByTestId('side').nth(1).getByText('seenLinks').first().waitFor();
  await openAll(page);
  await clean('the comparison');
  stayed(who, at);
});

test('links lead to the web or to mail, or they are none', async (t) => {
  const made = hostile();
  const at = await scene(t, { transcripts: [made], model: false });
  const page = await (await person(t)).page(address(at, made.id, { n: made.at.links.assistant }));
  const answer = record(page, made.at.links.assistant);
  await answer.getByText('seenLinks').first().waitFor();
  const targets = await answer.locator('.markdown a').evaluateAll((all) => all.map((link) => link.protocol));
  assert.deepEqual(targets.filter((protocol) => !['http:', 'https:', 'mailto:'].includes(protocol)), []);
  for (const name of ['one', 'two', 'three', 'four', 'five', 'six', 'eight', 'nine', 'ten', 'thirteen']) assert.ok((await answer.innerText()).includes(name), `${name} can be read`);
});

test('a hostile answer is as harmless while it comes', async (t) => {
  const at = await scene(t, { pace: 2 });
  const who = await person(t);
  const page = await who.page(`${at.url}/#/new`);
  for (const name of ['script', 'image', 'svg', 'links', 'fences', 'style', 'bidi', 'images']) {
    // The maker says what was said to it.
    await say(page, `${texts[name].slice(0, 900)} ${word(name)}`);
    await until(`${name} comes`, async () => (await coming(page)) !== '' || (await page.locator('article.assistant').filter({ hasText: word(name) }).count()) > 0);
    assert.deepEqual(await page.evaluate(`(${suspicious})()`), [], name);
    await until(`${name} was answered`, () => at.said(at.sessions()[0]).some(([who, words]) => who === 'assistant' && words.includes(word(name))));
    await settled(page);
    await page.keyboard.press('Escape');
    await page.keyboard.press('End');
    await page.locator('article.assistant').filter({ hasText: word(name) }).first().waitFor();
    assert.deepEqual(await page.evaluate(`(${suspicious})()`), [], name);
  }
  stayed(who, at);
});

test('a hostile question is text, and shows what would really run', async (t) => {
  const at = await scene(t);
  const who = await person(t);
  const page = await who.page(`${at.url}/#/new`);
  await say(page, "[[bash:echo '<img src=x onerror=globalThis.__ran=1>' \u202E# tneconni\u202C]]");
  const question = page.getByTestId('question');
  await question.waitFor();
  assert.match(await question.innerText(), /<img src=x onerror=globalThis\.__ran=1>/);
  assert.match(await question.innerText(), /202E/);
  assert.deepEqual(await page.evaluate(`(${suspicious})()`), []);
  await question.getByRole('button', { name: 'Allow' }).click();
  await page.getByText(/TOOL-DONE: <img src=x/).waitFor();
  await openAll(page);
  assert.deepEqual(await page.evaluate(`(${suspicious})()`), []);
  stayed(who, at);
});

test('the name of whoever is there is text', async (t) => {
  const name = '<img src=x onerror=globalThis.__ran=1>';
  const at = await scene(t, { tokens: [name], model: false });
  const who = await person(t, { expects: [/status of 401/] });
  const page = await who.page(at.url);
  await page.getByLabel('Token').fill(at.tokens[name]);
  await page.keyboard.press('Enter');
  await page.getByText(name, { exact: true }).waitFor();
  assert.deepEqual(await page.evaluate(`(${suspicious})()`), []);
  stayed(who, at);
});

for (const [index, name] of Object.keys(heavy).entries()) {
  test(`too much of something: ${name}`, async (t) => {
    const made = heavyOne(name, index);
    const at = await scene(t, { transcripts: [made], model: false });
    const page = await (await person(t)).page();
    const word = `seen${name[0].toUpperCase()}${name.slice(1)}`;
    const task = await longestTask(page, async () => {
      await openSession(page, at, made.id, { n: 2 });
      await page.getByText('The end is near.').or(record(page, 2)).first().waitFor();
      await openAll(page);
      await until('all of it can be reached', async () => {
        const more = frame(page).getByRole('button', { name: /^Show more/ });
        for (let at = 0; at < (await more.count()) && at < 4; at++) await more.nth(at).click({ timeout: 2000 }).catch(() => undefined);
        const all = frame(page).getByRole('button', { name: /^Load all of it/ });
        if ((await all.count()) > 0) await all.first().click({ timeout: 2000 }).catch(() => undefined);
        return page.evaluate((wanted) => document.querySelector('[data-testid=records]').textContent.includes(wanted), word);
      });
    });
    assert.ok(task < 5000, `a task of ${task} ms`);
    await frame(page).focus();
    await page.keyboard.press('End');
    await page.getByText('Indeed.').waitFor();
  });
}

test('secrets are hidden in every view until somebody asks', async (t) => {
  const made = secretive();
  const untitled = new Transcript({ key: 'main:web:untitled', begun: Date.parse('2026-04-04T09:00:00Z'), number: 301 });
  untitled.user(`${secrets.anthropic} is my key`);
  untitled.assistant('Noted.');
  untitled.add('pin', { to: 1, text: `${secrets.anthropic} is my key` });
  const titled = new Transcript({ key: 'main:web:titled', begun: Date.parse('2026-04-05T09:00:00Z'), number: 302, label: `ghp_${'a1B2c3D4e5'.repeat(4)}` });
  titled.title(`About ${secrets.github}`);
  titled.user('Hello.');
  titled.add('label', { to: 2, name: `point ${secrets.stripe}` });
  titled.assistant('Hello.');
  const at = await scene(t, { transcripts: [made, untitled, titled], model: false });
  const who = await person(t);
  const page = await who.page(at.url);
  const parts = [...new Set(Object.values(hidden)), 'c3D4e5a1B2c3D4e5'];
  const leaks = () => page.evaluate((all) => all.filter((part) => (document.title + document.documentElement.outerHTML.replace(/<script[\s\S]*?<\/script>/g, '')).includes(part)), parts);
  await rows(page).nth(2).waitFor();
  assert.deepEqual(await leaks(), [], 'the list');
  await searchBox(page).fill('bearer');
  await hits(page).first().waitFor();
  assert.deepEqual(await leaks(), [], 'a search');
  await searchBox(page).fill('');
  for (const [id, panel] of [[made.id, 'tree'], [made.id, 'context'], [untitled.id, 'tree'], [untitled.id, 'context'], [titled.id, 'tree'], [titled.id, 'about']]) {
    await openSession(page, at, id, { panel });
    await until(`${panel} is there`, async () => (await page.getByTestId(panel).innerText()).length > 50);
    assert.deepEqual(await leaks(), [], panel);
  }
  await openSession(page, at, made.id);
  const stops = await walk(page, `(${(all) => all.filter((part) => document.documentElement.outerHTML.replace(/<script[\s\S]*?<\/script>/g, '').includes(part))})(${JSON.stringify(parts)})`);
  assert.deepEqual([...new Set(stops.flat())], [], 'the conversation, with everything open');
  // As it is in the file.
  const last = made.next - 2;
  await record(page, last).getByRole('button', { name: /^Actions/ }).click();
  await page.getByRole('menuitem', { name: 'Raw record' }).click();
  await page.getByTestId('raw').getByText('masked').first().waitFor();
  assert.deepEqual(await leaks(), [], 'the raw record');
});

test('one secret is shown when it is asked for, and all of them when that is wanted', async (t) => {
  const made = secretive();
  const at = await scene(t, { transcripts: [made], model: false });
  const page = await (await person(t)).page();
  await openSession(page, at, made.id, { n: 2 });
  const first = record(page, 2);
  const mask = first.getByRole('button', { name: /Hidden secret/ });
  await mask.waitFor();
  assert.match(await mask.innerText(), /^sk-a…\[masked \d+\]$/);
  await mask.click();
  await first.getByText(secrets.anthropic).waitFor();
  assert.ok((await page.getByRole('button', { name: /Hidden secret/ }).count()) > 0, 'the others are hidden still');
  await page.getByRole('button', { name: 'Show secrets' }).click();
  await until('none is hidden', async () => (await page.getByRole('button', { name: /Hidden secret/ }).count()) === 0);
  await page.getByRole('button', { name: 'Hide secrets' }).click();
  await page.getByRole('button', { name: /Hidden secret/ }).first().waitFor();
});

test('a secret is hidden wherever a long text is cut', async (t) => {
  const made = new Transcript({ key: 'main:web:cut', begun: Date.parse('2026-04-06T09:00:00Z'), number: 303 });
  // So that every cut of the text falls into one of them.
  const row = `${'x '.repeat(20)}${secrets.anthropic} `;
  made.user('Read it.');
  made.tool('bash', { command: 'cat secrets' }, row.repeat(9000));
  made.assistant(row.repeat(3000));
  const at = await scene(t, { transcripts: [made], model: false });
  const page = await (await person(t)).page();
  await openSession(page, at, made.id, { n: 2 });
  await openAll(page);
  // More than the page promises to keep of a secret (its first four characters) must not be there at any length.
  const leaks = () => page.evaluate((part) => document.querySelector('[data-testid=records]').textContent.includes(part), secrets.anthropic.slice(0, 20));
  for (let round = 0; round < 6; round++) {
    assert.equal(await leaks(), false, `after ${round} more`);
    const more = frame(page).getByRole('button', { name: /^Show more/ });
    if ((await more.count()) === 0) break;
    await more.first().click();
  }
});

test('the policy lets nothing in that the page did not bring', async (t) => {
  const at = await scene(t, { model: false });
  const answer = await fetch(at.url);
  const policy = Object.fromEntries(answer.headers.get('content-security-policy').split(';').map((part) => part.trim().split(/\s+/)).map(([name, ...values]) => [name, values]));
  assert.deepEqual(policy['default-src'], ["'none'"]);
  assert.deepEqual(policy['frame-ancestors'], ["'none'"]);
  assert.deepEqual(policy['base-uri'], ["'none'"]);
  for (const values of [policy['script-src'], policy['style-src']]) {
    assert.ok(values.length > 0 && values.every((value) => /^'(sha256|nonce)-/.test(value)), String(values));
  }
  assert.deepEqual((policy['connect-src'] ?? []).filter((value) => value !== "'self'" && !new RegExp(`^wss?://${new URL(at.url).host}$`).test(value)), []);
  assert.deepEqual((policy['img-src'] ?? []).filter((value) => !["'self'", 'data:', 'blob:'].includes(value)), []);
  assert.deepEqual((policy['form-action'] ?? []).filter((value) => value !== "'none'" && value !== "'self'"), []);
  for (const name of ['object-src', 'frame-src', 'worker-src', 'media-src', 'font-src']) assert.ok(policy[name] === undefined || policy[name].every((value) => value === "'none'" || value === "'self'"), name);
  assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
  assert.equal(answer.headers.get('referrer-policy'), 'no-referrer');
  const page = await (await person(t, { expects: [/Content Security Policy/, /Trusted(Script|HTML)/, /^policy: /] })).page(at.url);
  const came = await page.evaluate(async () => {
    const attempts = {
      script: () => Object.assign(document.createElement('script'), { textContent: 'globalThis.__ran = 1' }),
      markup: () => Object.assign(document.createElement('div'), { innerHTML: '<img src=x onerror="globalThis.__ran = 2">' }),
      handler: () => {
        const image = document.createElement('img');
        image.setAttribute('onerror', 'globalThis.__ran = 3');
        image.src = 'data:,';
        return image;
      },
      style: () => {
        const words = document.createElement('p');
        words.setAttribute('style', 'color:rgb(1,2,3)');
        return words;
      },
    };
    for (const make of Object.values(attempts)) {
      try {
        document.body.append(make());
      } catch {
        // It was refused even sooner.
      }
    }
    const fetched = await fetch('https://elsewhere.example/', { mode: 'no-cors' }).then(() => 'fetched', () => 'refused');
    const styled = [...document.querySelectorAll('p')].some((words) => getComputedStyle(words).color === 'rgb(1, 2, 3)');
    return { ran: globalThis.__ran, styled, fetched };
  });
  assert.deepEqual(came, { ran: undefined, styled: false, fetched: 'refused' });
});

test('by link: it logs one browser in, once, and is gone from the address', async (t) => {
  const made = branches();
  const at = await scene(t, { transcripts: [made], model: false });
  const { link } = at.serving;
  assert.match(link, /#link=[\w-]{43}$/);
  const who = await person(t, { stranger: true });
  const page = await who.page(link);
  await row(page, made.id).waitFor();
  const code = link.split('#link=')[1];
  assert.ok(!page.url().includes(code), 'the address has it');
  for (const url of who.requests) assert.ok(!url.includes(code), 'a request has it');
  const cookie = (await page.context().cookies()).find(({ name }) => name === 'unforget_token');
  assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, 'Strict']);
  await page.reload();
  await row(page, made.id).waitFor();
  const second = await person(t, { stranger: true, expects: [/status of 401/] });
  const other = await second.page(link);
  await other.getByRole('alert').waitFor();
  assert.match(await other.getByRole('alert').innerText(), /used before/);
  assert.equal(await rows(other).count(), 0);
});

test('by token: who has none sees nothing, and a wrong one is told', async (t) => {
  const made = branches();
  const at = await scene(t, { transcripts: [made], tokens: ['ada'] });
  const who = await person(t, { expects: [/status of 401/] });
  const page = await who.page(at.url);
  await page.getByLabel('Token').fill('uft_wrong');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('alert').waitFor();
  assert.match(await page.getByRole('alert').innerText(), /not known/);
  assert.equal(await rows(page).count(), 0);
});

test('by token: it is in a cookie that no script can read, and nowhere else', async (t) => {
  const at = await scene(t, { tokens: ['ada'] });
  const token = at.tokens.ada;
  assert.match(token, /^uft_/);
  const who = await person(t, { expects: [/status of 401/] });
  const page = await who.page(at.url);
  await page.getByLabel('Token').fill(token);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'New conversation' }).first().click();
  await say(page, 'Hello from Ada.');
  await page.getByText('ECHO(1 messages): Hello from Ada.').waitFor();
  await settled(page);
  const cookies = await who.context.cookies();
  assert.equal(cookies.length, 1);
  const [cookie] = cookies;
  assert.equal(cookie.httpOnly, true);
  assert.equal(cookie.sameSite, 'Strict');
  assert.equal(cookie.expires, -1, 'it goes with the browser');
  const readable = await page.evaluate(async () => {
    const databases = await indexedDB.databases();
    const caches = await globalThis.caches?.keys?.();
    return JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, databases, caches, location.href, document.documentElement.outerHTML.replace(/<script[\s\S]*?<\/script>/g, ''), performance.getEntries().map(({ name }) => name), history.state, globalThis.name]);
  });
  for (const part of [token, token.slice(4, 24), cookie.value]) assert.ok(!readable.includes(part), 'a script can read it');
  for (const url of who.requests) assert.ok(!url.includes(token.slice(4, 24)), 'an address has it');
  // It is Ada who is there, with sessions of her own.
  await page.getByText('ada', { exact: true }).waitFor();
  await page.reload();
  await connected(page);
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByLabel('Token').waitFor();
  assert.deepEqual(await who.context.cookies(), []);
  await page.reload();
  await page.getByLabel('Token').waitFor();
});

test('by token: staying for longer is a choice', async (t) => {
  const at = await scene(t, { tokens: ['ada'] });
  const who = await person(t, { expects: [/status of 401/] });
  const page = await who.page(at.url);
  await page.getByLabel('Token').fill(at.tokens.ada);
  await page.getByLabel(/Stay logged in/).check();
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('There are no sessions yet').waitFor();
  const [cookie] = await who.context.cookies();
  const days = (cookie.expires - Date.now() / 1000) / 86_400;
  assert.ok(days > 28 && days < 31, `${days} days`);
  assert.equal(cookie.httpOnly, true);
});

test('by token: one that is taken back ends what it began', async (t) => {
  const at = await scene(t, { tokens: ['ada', 'bob'] });
  const who = await person(t, { expects: [/status of 401/, /WebSocket/] });
  const page = await who.page(at.url);
  await page.getByLabel('Token').fill(at.tokens.ada);
  await page.keyboard.press('Enter');
  await page.getByText('There are no sessions yet').waitFor();
  const { id } = at.run(['token', 'ls', '--json']).trim().split('\n').map((line) => JSON.parse(line)).find(({ name, actor }) => [name, actor].includes('ada'));
  at.run(['token', 'rm', id]);
  await page.getByLabel('Token').waitFor();
});

test('by token: what one said, another does not see', async (t) => {
  const at = await scene(t, { tokens: ['ada', 'bob'] });
  const enter = async (name) => {
    const who = await person(t, { expects: [/status of (401|404)/] });
    const page = await who.page(at.url);
    await page.getByLabel('Token').fill(at.tokens[name]);
    await page.keyboard.press('Enter');
    await page.getByText('There are no sessions yet').waitFor();
    return page;
  };
  const [ada, bob] = [await enter('ada'), await enter('bob')];
  await ada.getByRole('button', { name: 'New conversation' }).first().click();
  await say(ada, 'Only for Ada.');
  await ada.getByText('ECHO(1 messages): Only for Ada.').waitFor();
  await bob.goto(ada.url());
  await bob.getByText('This session is not here').waitFor();
  assert.equal(await rows(bob).count(), 0);
});

test('by token: the cookie alone lets no other page in', async (t) => {
  const at = await scene(t, { tokens: ['ada'] });
  const who = await person(t, { expects: [/status of 401/] });
  const page = await who.page(at.url);
  await page.getByLabel('Token').fill(at.tokens.ada);
  await page.keyboard.press('Enter');
  await page.getByText('There are no sessions yet').waitFor();
  const [cookie] = await who.context.cookies();
  const ask = async (headers, method = 'GET') => (await fetch(`${at.url}/v1/sessions`, { method, headers: { cookie: `${cookie.name}=${cookie.value}`, ...headers }, ...(method === 'POST' ? { body: '{}' } : {}) })).status;
  assert.equal(await ask({ 'x-unforget-page': '1' }), 200);
  assert.equal(await ask({ 'x-unforget-page': '1', origin: 'https://elsewhere.example' }), 403);
  assert.ok([401, 403].includes(await ask({ origin: 'https://elsewhere.example', 'content-type': 'text/plain' }, 'POST')));
  assert.ok([401, 403].includes(await ask({ 'content-type': 'application/json' }, 'POST')), 'without the header that only the page can send');
  // And a token in an address is refused.
  assert.equal((await fetch(`${at.url}/v1/sessions?token=${at.tokens.ada}`)).status, 400);
});

test('nobody can put the page into a frame', async (t) => {
  const at = await scene(t, { model: false });
  const who = await person(t, { expects: [/frame-ancestors|Refused to frame|violates the following/, /^policy: /] });
  const page = await who.page('about:blank');
  await page.setContent(`<iframe src="${at.url}"></iframe>`);
  await page.waitForLoadState('networkidle');
  const inside = page.frames()[1];
  assert.equal(await inside?.locator('#page').count().catch(() => 0) ?? 0, 0);
});
