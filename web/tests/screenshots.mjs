// The pictures of docs/page: the page as people see it, taken anew by `cargo xtask screenshots`.
//
// What is shown are the tests' own stories, and the clock of the page stands still, so that a picture changes when the page does.

import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';

import { person, stopped } from './lib/browser.mjs';
import { showcase, spacious } from './lib/fixtures/showcase.mjs';
import { branches, workshop } from './lib/fixtures/stories.mjs';
import { root } from './lib/places.mjs';
import { scene } from './lib/scene.mjs';
import { address, call, calls, hits, openSession, record, rows, say, searchBox } from './lib/views.mjs';
import { until } from './lib/until.mjs';

const place = path.join(root, 'docs/page');
const noon = new Date('2026-03-05T12:00:00Z');
const [repair, tools, large] = [branches(), workshop(), spacious()];

/** By name: the device, the colours, and what is done before the picture is taken. */
const pictures = {
  'conversation': ['desktop', 'light', async (page, at) => {
    await openSession(page, at, tools.id, { n: tools.at.thinking + 1 });
    await call(page, tools.at.good).waitFor();
  }],
  'branches': ['desktop', 'light', async (page, at) => {
    await openSession(page, at, repair.id, { panel: 'tree' });
    await page.locator(`[data-testid=turn][data-n="${repair.at.rewrite}"]`).click();
    await page.getByRole('button', { name: 'Fork before it' }).waitFor();
  }],
  'compare': ['desktop', 'light', async (page, at) => {
    await page.goto(address(at, repair.id, { panel: 'compare', at: repair.at.failed, with: repair.at.last }));
    await page.getByTestId('side').nth(1).getByText('Then move the check.').waitFor();
    await rows(page).nth(5).waitFor();
  }],
  'context-dark': ['desktop', 'dark', async (page, at) => {
    await openSession(page, at, large.id, { panel: 'context', n: large.head - 4 });
    await page.getByTestId('context').waitFor();
  }],
  'conversation-dark': ['desktop', 'dark', async (page, at) => {
    await openSession(page, at, tools.id, { n: tools.at.bad });
    await until('an open call', () => call(page, tools.at.bad).evaluate((element) => element.open));
  }],
  'search': ['desktop', 'light', async (page, at) => {
    await page.goto(at.url);
    await searchBox(page).fill('検索');
    await hits(page).first().waitFor();
  }],
  'usage': ['desktop', 'light', async (page, at) => {
    await page.goto(`${at.url}/#/usage`);
    await page.getByLabel('Days').selectOption('90');
    await page.getByTestId('chart').locator('rect').nth(5).waitFor();
  }],
  'shortcuts-dark': ['desktop', 'dark', async (page, at) => {
    await openSession(page, at, repair.id);
    await record(page, repair.at.last).waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
  }],
  'phone-list': ['phone', 'light', async (page, at) => {
    await page.goto(at.url);
    await rows(page).nth(5).waitFor();
  }],
  'phone-conversation': ['phone', 'light', async (page, at) => {
    await openSession(page, at, repair.id);
    await record(page, repair.at.last).waitFor();
  }],
  'phone-branches-dark': ['phone', 'dark', async (page, at) => {
    await openSession(page, at, repair.id, { panel: 'tree' });
    await page.getByTestId('turn').first().waitFor();
  }],
  'phone-question-dark': ['phone', 'dark', async (page, at) => {
    await openSession(page, at, repair.id);
    await say(page, 'Run the tests once more, please.');
    await page.getByTestId('question').waitFor();
    await calls(page).last().waitFor();
  }],
};

/** A model's maker that wants to run the tests, whatever is said to it. */
async function asker() {
  const server = http.createServer((request, response) => {
    request.resume();
    response.setHeader('content-type', 'text/event-stream');
    const usage = { input_tokens: 900, output_tokens: 40 };
    const say = (type, data) => response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
    say('message_start', { message: { id: 'msg_picture', type: 'message', role: 'assistant', model: 'claude-opus-5', content: [], stop_reason: null, stop_sequence: null, usage } });
    say('content_block_start', { index: 0, content_block: { type: 'text', text: '' } });
    say('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Gladly.' } });
    say('content_block_stop', { index: 0 });
    say('content_block_start', { index: 1, content_block: { type: 'tool_use', id: 'toolu_picture', name: 'bash', input: {} } });
    say('content_block_delta', { index: 1, delta: { type: 'input_json_delta', partial_json: '{"command":"cargo test"}' } });
    say('content_block_stop', { index: 1 });
    say('message_delta', { delta: { stop_reason: 'tool_use', stop_sequence: null }, usage });
    say('message_stop', {});
    response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

const ends = [];
const t = { after: (end) => ends.unshift(end) };
try {
  mkdirSync(place, { recursive: true });
  const maker = await asker();
  t.after(() => maker.close());
  const env = { ANTHROPIC_BASE_URL: `http://127.0.0.1:${maker.address().port}`, ANTHROPIC_API_KEY: 'sk-ant-nobody-sees-this' };
  for (const [name, [size, colorScheme, open]] of Object.entries(pictures)) {
    const at = await scene(t, { transcripts: showcase(), model: false, env });
    const who = await person(t, { size, colorScheme });
    const page = await who.page();
    await page.clock.setFixedTime(noon);
    await open(page, at);
    if (size === 'desktop') await rows(page).or(hits(page)).first().waitFor();
    await page.evaluate(() => document.fonts.ready);
    await page.screenshot({ path: path.join(place, `${name}.png`), animations: 'disabled', caret: 'hide' });
    console.log(`docs/page/${name}.png`);
    await who.context.close();
    await at.serving.kill();
  }
} finally {
  for (const end of ends) await end();
  await stopped();
}
