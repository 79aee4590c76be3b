// The tests' own tools: what they would not notice, no test would.

import assert from 'node:assert/strict';
import test, { after } from 'node:test';

import { person, stopped } from './lib/browser.mjs';
import { heavy, heavyOne, hostile, secretive } from './lib/fixtures/hostile.mjs';
import { long, rare } from './lib/fixtures/long.mjs';
import { branches, found, languages, workshop } from './lib/fixtures/stories.mjs';
import { barriers, longestTask, shifts, watchShifts } from './lib/measure.mjs';
import { run } from './lib/programs.mjs';
import { folder, scene } from './lib/scene.mjs';
import { until } from './lib/until.mjs';
import { doubled, drawn, watchDoubles } from './lib/views.mjs';

after(stopped);

/** A test of its own, whose end can be looked at. */
function inner() {
  const ends = [];
  return { after: (end) => ends.unshift(end), end: async () => { for (const end of ends) await end(); } };
}

test('a page that fails makes its test fail', async () => {
  for (const wrong of ['setTimeout(() => { throw new Error("thrown") })', 'console.error("told")', 'fetch("http://127.0.0.1:1/").catch(() => {})']) {
    const t = inner();
    const { context, problems } = await person(t);
    const page = await context.newPage();
    await page.evaluate(wrong);
    await until(`the browser complains of ${wrong}`, () => problems.length > 0);
    await assert.rejects(t.end(), /something went wrong in the page/);
  }
});

test('a violation of the policy makes its test fail', async (t) => {
  const its = inner();
  const { url } = await scene(t, { model: false });
  const { context, problems } = await person(its, { expects: [/status of 404/] });
  const page = await context.newPage();
  await page.goto(`${url}/nothing/here`);
  await page.evaluate(() => void (document.body.innerHTML = '<p style="color:red">x</p><script>1</script>'));
  await until('the browser refuses', () => problems.some((problem) => problem.startsWith('policy: style-src')));
  await assert.rejects(its.end(), /something went wrong in the page/);
});

test('a long task and a barrier are found', async (t) => {
  const page = await (await person(t)).page('about:blank');
  const busy = () => page.evaluate(() => { let sum = 0; for (let i = 0; i < 3e8; i++) sum += i % 7; return sum; });
  const long = await longestTask(page, busy);
  const short = await longestTask(page, () => page.evaluate(() => 1));
  assert.ok(long > 100 && short < long / 2, `${long} ms and ${short} ms`);
  await page.setContent('<html lang="en"><title>x</title><main><button></button></main>');
  assert.match((await barriers(page)).join(), /^button-name/);
});

test('words that are shown twice, if only for a frame, are noticed', async (t) => {
  const page = await (await person(t)).page('about:blank');
  await page.setContent('<article class="user">gull</article><article class="assistant">gull</article>');
  await watchDoubles(page, ['gull']);
  await drawn(page);
  assert.deepEqual(await doubled(page), []);
  await page.evaluate(() => document.body.insertAdjacentHTML('beforeend', '<article class="user pending">gull</article>'));
  await drawn(page);
  await page.evaluate(() => document.querySelector('.pending').remove());
  assert.deepEqual(await doubled(page), ['gull user: user | user pending']);
});

test('what jumps is noticed', async (t) => {
  const who = await person(t);
  await watchShifts(who.context);
  const page = await who.page('about:blank');
  await page.setContent('<div id="above"></div><p>words that are read</p>');
  await drawn(page);
  assert.equal((await shifts(page)).total, 0);
  await page.evaluate(() => (document.getElementById('above').style.height = '300px'));
  await until('a jump', async () => (await shifts(page)).total > 0);
});

test('transcripts are as the program would have written them', (t) => {
  const place = folder(t);
  for (const made of [branches(), ...languages(), long(1000), secretive()]) made.save(place);
  assert.match(run(place, ['doctor']), /all is well/);
  assert.match(run(place, ['search', found]), /zephyrine/);
  assert.match(run(place, ['search', rare]), /A very long conversation/);
  assert.match(run(place, ['search', '나침반']), /로그 파일/);
  assert.match(run(place, ['tree', 'main:cli:ada']), /rewrite/);
});

test('damage and hostile lines are where they are meant to be, and nowhere else', (t) => {
  const place = folder(t);
  workshop().save(place);
  const damaged = (said) => said.split('\n').filter((line) => line.startsWith('found'));
  assert.equal(damaged(run(place, ['doctor'], { codes: [4] })).length, 2);
  const other = folder(t);
  hostile().save(other);
  Object.keys(heavy).forEach((name, index) => heavyOne(name, index).save(other));
  assert.equal(damaged(run(other, ['doctor'], { codes: [4] })).length, 8);
});

test('the network can be cut and heals', async (t) => {
  const { relay, serving } = await scene(t, { model: false, network: true });
  const alive = async (url) => (await fetch(`${url}/v1/health`)).ok;
  assert.ok(await alive(relay.url));
  relay.cut();
  await assert.rejects(alive(relay.url));
  assert.ok(await alive(serving.url));
  relay.heal();
  assert.ok(await alive(relay.url));
  await serving.kill();
  await assert.rejects(alive(relay.url));
  await serving.start();
  assert.ok(await alive(relay.url));
});
