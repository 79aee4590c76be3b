// What a page costs whoever looks at it: how long it is deaf, how much it jumps, how large it is, and what a checker of accessibility says of it.

import assert from 'node:assert/strict';

import { started } from './browser.mjs';
import { axe } from './places.mjs';

/**
 * Does something, and returns the longest stretch of work that kept the page from answering meanwhile, in milliseconds. Counted is the processor's time, not
 * the clock's: a machine that does other things as well does not make a page slower.
 */
export async function longestTask(page, action) {
  const browser = await started();
  await browser.startTracing(page, { categories: ['-*', 'toplevel', 'blink.user_timing', 'disabled-by-default-devtools.timeline', '__metadata'] });
  try {
    await action();
    await page.evaluate(() => void performance.mark('the end of the trace'));
  } finally {
    var trace = JSON.parse((await browser.stopTracing()).toString('utf8'));
  }
  const thread = ({ pid, tid }) => `${pid} ${tid}`;
  const names = trace.traceEvents.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain');
  const mains = new Set(names.map(thread));
  const tasks = trace.traceEvents.filter((event) => event.name.endsWith('RunTask') && event.tdur !== undefined && mains.has(thread(event)));
  assert.ok(tasks.length > 0, 'the trace has no tasks');
  assert.ok(trace.traceEvents.some(({ name }) => name === 'the end of the trace'), 'the trace is full: its end is missing');
  return Math.max(...tasks.map(({ tdur }) => tdur)) / 1000;
}

/** Begins to add up how much the page jumps; `shifts` tells. To be called before the page is opened. */
export async function watchShifts(context) {
  await context.addInitScript(() => {
    globalThis.__shifts = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        const moved = entry.sources.map(({ node, previousRect: a, currentRect: b }) => {
          const element = node?.nodeType === 3 ? node.parentElement : node;
          return `${element?.tagName ?? '?'}.${element?.className ?? ''} ${[a.x, a.y, a.width, a.height]} -> ${[b.x, b.y, b.width, b.height]}`;
        });
        globalThis.__shifts.push({ value: entry.value, at: entry.startTime, wasAsked: entry.hadRecentInput, moved });
      }
    }).observe({ type: 'layout-shift', buffered: true });
  });
}

/** How much the page has jumped since a time of its own, that nobody asked for, and what moved. */
export async function shifts(page, since = 0) {
  const all = await page.evaluate(() => globalThis.__shifts);
  const unasked = all.filter(({ at, wasAsked }) => at >= since && !wasAsked);
  return { total: unasked.reduce((sum, { value }) => sum + value, 0), moved: unasked.flatMap(({ value, moved }) => moved.map((what) => `${value.toFixed(4)} ${what}`)) };
}

/** How many nodes the document has. */
export const nodes = (page) => page.evaluate(() => {
  const walker = document.createTreeWalker(document, NodeFilter.SHOW_ALL);
  let count = 1;
  while (walker.nextNode()) count++;
  return count;
});

/** Live nodes and the heap of the page's scripts, in bytes, after the garbage was collected. */
export async function memory(page) {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.enable');
  // What only finalizers hold goes with the second time.
  for (let round = 0; round < 3; round++) await session.send('HeapProfiler.collectGarbage');
  await session.send('Performance.enable');
  const { metrics } = await session.send('Performance.getMetrics');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  const value = (wanted) => metrics.find(({ name }) => name === wanted)?.value;
  await session.detach();
  return { heap: usedSize, nodes: value('Nodes'), listeners: value('JSEventListeners'), documents: value('Documents') };
}

/** Everything that the checker calls serious or worse, one line each. */
export async function barriers(page) {
  // Transitions are let end: a colour on its way is the one of no theme.
  await page.evaluate(() => Promise.allSettled(document.getAnimations().filter((animation) => animation.effect?.getComputedTiming().iterations !== Infinity).map(({ finished }) => finished)));
  await page.evaluate(axe());
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  const severe = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  return severe.flatMap(({ id, help, nodes }) => nodes.map(({ target, html, any, all, none }) => {
    const why = [...any, ...all, ...none].map(({ message }) => message).join('; ');
    return `${id}: ${help}: ${target.join(' ')} ${html.slice(0, 160)} (${why})`;
  }));
}
