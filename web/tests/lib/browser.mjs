// A real browser, one for a file of tests, with a fresh profile; and pages that fail their test when anything is wrong with them.
//
// A page error, an error on the console, or a violation of the content security policy is a failure, whatever else the test looks at. So is a request to any
// other place than the server. A test that cuts the network says which complaints of the browser it expects.

import assert from 'node:assert/strict';
import { atEnd } from './ending.mjs';
import { chromium, programs } from './places.mjs';
import { loggedIn } from './programs.mjs';
import { patience } from './until.mjs';

const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export const sizes = {
  desktop: { viewport: { width: 1280, height: 800 } },
  phone: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true },
};

/** What a browser says of a network that is gone. */
export const offline = /net::ERR_|WebSocket connection to|Failed to fetch|status of (502|503)/;

let browser;

/** The browser of this file, started when it is first needed, and again if a page took it down. */
export async function started() {
  if (!browser?.isConnected()) browser = await chromium.launch({ executablePath: programs.chromium, headless: true, args: flags });
  return browser;
}

export async function stopped() {
  await browser?.close();
  browser = undefined;
}

/**
 * A fresh profile, which ends with the test. Where the server is for its owner, the browser is logged in as the owner, unless it is a `stranger`. Of its pages, `problems` is what went wrong so far; the test fails at its end if there is any that was not expected.
 */
export async function person(t, { size = 'desktop', colorScheme = 'light', expects = [], stranger = false, ...options } = {}) {
  const context = await (await started()).newContext({
    ...sizes[size],
    colorScheme,
    locale: 'en-GB',
    timezoneId: 'UTC',
    reducedMotion: 'no-preference',
    ...options,
  });
  context.setDefaultTimeout(patience);
  const problems = [];
  const requests = [];
  const allowed = [...expects];
  const note = (what) => allowed.some((pattern) => pattern.test(what)) || problems.push(what);
  await context.exposeBinding('__violated', (_source, what) => note(`policy: ${what}`));
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      globalThis.__violated(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
    });
  });
  const watch = (page) => {
    page.on('pageerror', (error) => note(`page error: ${error.stack ?? error}`));
    page.on('console', (message) => message.type() === 'error' && note(`console: ${message.text()} (${message.location().url})`));
    page.on('crash', () => note('the page crashed'));
    page.on('request', (request) => requests.push(request.url()));
    page.on('websocket', (socket) => requests.push(socket.url()));
  };
  context.on('page', watch);
  atEnd(t, async () => {
    await context.close();
    assert.deepEqual(problems, [], 'something went wrong in the page');
  });
  return {
    context,
    problems,
    requests,
    /** From here on the browser may complain of that. */
    expect: (...patterns) => allowed.push(...patterns),
    async page(url) {
      if (!stranger) await context.addCookies(loggedIn(url));
      const page = await context.newPage();
      if (url) await page.goto(url);
      return page;
    },
  };
}
