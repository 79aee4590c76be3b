// What the page costs, as ratios in one run: how soon something is seen with very many sessions against none, and what a tab has in memory after an hour of
// answers against the first minute of them.
//
//   cargo xtask bench page [--loads N] [--minutes N] [--sessions N] [--pace MILLISECONDS]
//
// Loads of both stores take turns, so that a slow moment of the machine hits both. An hour of answers is as many words as a model says in one at a usual
// pace, in turns of a minute each, said a word a millisecond: faster, a server tells many words in one message, and the page has less to do than it would have.

import { parseArgs } from 'node:util';

import { maker } from './maker.mjs';
import { person, stopped } from '../tests/lib/browser.mjs';
import { many } from '../tests/lib/fixtures/many.mjs';
import { memory } from '../tests/lib/measure.mjs';
import { scene } from '../tests/lib/scene.mjs';
import { until } from '../tests/lib/until.mjs';
import { box, say, settled } from '../tests/lib/views.mjs';

const { values } = parseArgs({
  options: {
    loads: { type: 'string', default: '15' },
    minutes: { type: 'string', default: '60' },
    sessions: { type: 'string', default: '100000' },
    pace: { type: 'string', default: '1' },
  },
});
const [loads, minutes, sessions] = [Number(values.loads), Number(values.minutes), Number(values.sessions)];
/** Words that a model says in a second. */
const usual = 60;

const ends = [];
const t = { after: (end) => ends.unshift(end) };
const median = (numbers) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1];
const ms = (number) => `${number.toFixed(0)} ms`;
const mb = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

/** One load in a fresh profile: when something was painted, and when the list was there. */
async function load(at, what) {
  const who = await person(t);
  await who.context.addInitScript((wanted) => {
    new MutationObserver((_, observer) => {
      if (!document.querySelector(wanted)) return;
      observer.disconnect();
      // Seen is what was painted.
      requestAnimationFrame(() => requestAnimationFrame(() => (globalThis.__there = performance.now())));
    }).observe(document, { childList: true, subtree: true });
  }, what);
  const page = await who.page(at.url);
  await page.waitForFunction(() => globalThis.__there);
  const times = await page.evaluate(() => [performance.getEntriesByName('first-contentful-paint')[0].startTime, globalThis.__there]);
  await who.context.close();
  return times;
}

async function paints() {
  const [full, empty] = [await scene(t, { folder: many(sessions), model: false }), await scene(t, { model: false })];
  const times = { full: [], empty: [] };
  // The first load of each is not counted: files and caches are cold.
  for (let round = 0; round <= loads; round++) {
    for (const [name, at, what] of [['empty', empty, '.nothing p'], ['full', full, '[data-testid=session]']]) {
      const time = await load(at, what);
      if (round > 0) times[name].push(time);
    }
  }
  const of = (name, index) => median(times[name].map((time) => time[index]));
  console.log(`first contentful paint: ${ms(of('empty', 0))} with no sessions, ${ms(of('full', 0))} with ${sessions.toLocaleString('en')}: ${(of('full', 0) / of('empty', 0)).toFixed(2)} times`);
  console.log(`the list is there:      ${ms(of('empty', 1))} with no sessions, ${ms(of('full', 1))} with ${sessions.toLocaleString('en')}: ${(of('full', 1) / of('empty', 1)).toFixed(2)} times`);
  console.log(`(medians of ${loads} loads each)`);
}

async function hour() {
  const model = await maker({ pace: Number(values.pace) });
  t.after(() => model.stop());
  const at = await scene(t, { model: false, env: { ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'sk-ant-nobody-sees-this' } });
  const page = await (await person(t)).page();
  let heard = 0;
  page.on('websocket', (socket) => socket.on('framereceived', () => (heard += 1)));
  await page.goto(`${at.url}/#/new`);
  const words = usual * 60;
  const done = () => {
    const [id] = at.sessions();
    return id ? at.records(id).filter(({ type, state }) => type === 'turn' && state === 'done').length : 0;
  };
  const measured = [];
  for (let minute = 1; minute <= minutes; minute++) {
    await say(page, `[[long:${words}]]`);
    await until(`minute ${minute} was said`, () => done() >= minute);
    await settled(page);
    if (minute === 1 || minute === minutes || minute % 10 === 0) measured.push([minute, await memory(page)]);
  }
  await box(page).waitFor();
  for (const [minute, { heap, nodes, listeners }] of measured) console.log(`after ${String(minute).padStart(3)} min: heap ${mb(heap)}, ${nodes} nodes, ${listeners} listeners`);
  const [[, first], [, last]] = [measured[0], measured.at(-1)];
  const said = (words * minutes).toLocaleString('en');
  console.log(`memory of the tab:      ${mb(first.heap)} after the first minute, ${mb(last.heap)} after ${minutes}: ${(last.heap / first.heap).toFixed(2)} times; ${(last.nodes / first.nodes).toFixed(2)} times the nodes`);
  console.log(`(${said} words in ${minutes} answers, told in ${heard.toLocaleString('en')} messages)`);
}

try {
  await paints();
  if (minutes > 0) await hour();
} finally {
  for (const end of ends) await end();
  await stopped();
}
