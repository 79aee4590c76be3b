/**
 * The same tests at the other places: behind a real server, and with a remote.
 */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { Scene } from './scene.js';
import { startServer } from './server.js';

const isElsewhere = process.env['UNFORGET_TEST_REMOTE'] !== undefined || process.env['UNFORGET_TEST_URL'] !== undefined;

/** Runs files with tests, and fails with what they said if one of them fails. */
async function run(files: string[], environment: Record<string, string>): Promise<void> {
  const paths = files.map((file) => fileURLToPath(new URL(`${file}.test.js`, import.meta.url)));
  const { NODE_TEST_CONTEXT: _, ...inherited } = process.env;
  const child = spawn(process.execPath, ['--test', '--test-reporter=tap', ...paths], { env: { ...inherited, ...environment }, stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const code = await new Promise((resolve) => child.on('close', resolve));
  assert.equal(code, 0, said);
  assert.match(said, /^# fail 0$/m);
  assert.doesNotMatch(said, /^# pass 0$/m);
}

describe('elsewhere', { skip: isElsewhere && 'the tests already run elsewhere' }, () => {
  test('behind a real server', { timeout: 1_800_000 }, async (context) => {
    const scene = new Scene(context);
    const { url, token } = await startServer(join(scene.folder, 'server'), (ending) => scene.atEnd(ending));
    await run(['contracts', 'entries', 'sessions'], { UNFORGET_TEST_URL: url, UNFORGET_TEST_TOKEN: token });
  });

  test('with a remote', { timeout: 1_800_000 }, async (context) => {
    const scene = new Scene(context);
    const there = join(scene.folder, 'there');
    mkdirSync(there);
    await run(['contracts', 'entries', 'sessions', 'lost', 'kill', 'machines'], { UNFORGET_TEST_REMOTE: pathToFileURL(there).href });
  });
});
