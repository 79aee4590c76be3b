// Where programs and packages are. Nothing is searched for elsewhere: `cargo xtask test` puts everything into its place.

import { createRequire } from 'node:module';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The root of the project. */
export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..');

const built = path.join(root, 'target', process.env.UNFORGET_TARGET ?? 'debug');
const tools = path.join(root, 'target/tools/web-tests/');

/** The program, and the stand-in of the model's maker. */
export const programs = {
  unforget: process.env.UNFORGET_BIN ?? path.join(built, 'unforget'),
  api: process.env.UNFORGET_FAKE_API ?? path.join(built, 'fake-api'),
  chromium: process.env.UNFORGET_CHROMIUM ?? '/usr/bin/chromium',
};

/** Fixtures that take a while are made once and kept here. */
export const kept = path.join(root, 'target/web-fixtures');

const require = createRequire(path.join(tools, 'package.json'));

for (const [name, place] of Object.entries(programs)) {
  if (!existsSync(place)) throw new Error(`there is no ${name} at ${place}: cargo xtask test`);
}

export const { chromium } = require('playwright-core');

/** The source of the checker, to be run in a page. */
export const axe = () => readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
