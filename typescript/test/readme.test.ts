/**
 * What the README says works: each snippet is checked by the compiler and run.
 */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

import typescript from 'typescript';

import { cannotRun, Model } from './agent.js';
import { needsProgram, PROGRAM, Scene } from './scene.js';
import { startServer } from './server.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const FOLDER = join(ROOT, 'build', 'readme');
const snippets = [...readFileSync(join(ROOT, 'README.md'), 'utf8').matchAll(/^```ts\n(.*?)^```/gms)].map((match) => match[1] ?? '');
/** What each of them prints. */
const printed: RegExp[] = [
  /Which word was it\?/,
  /^[0-9a-f-]{36} .+\ngoes on as [0-9a-f-]{36}\n$/,
  /^\[ { type: 'note', uuid: '1', text: 'size 42' } \]\n$/,
  /^\[ { type: 'note', uuid: '1', text: 'size 43' } \]\n$/,
  /^2 messages\nmain:chat:ada \d+\nuser .*shoes.*\n/,
  /^invalid - .+\n$/,
];

const run = promisify(execFile);

describe('README', { skip: needsProgram || cannotRun }, () => {
  let model: Model;
  before(async () => {
    mkdirSync(FOLDER, { recursive: true });
    model = await Model.start();
  });
  after(() => model.stop());

  test('its snippets compile', () => {
    const files = snippets.map((text, at) => {
      const file = join(FOLDER, `${at + 1}.mts`);
      writeFileSync(file, text);
      return file;
    });
    const { config } = typescript.readConfigFile(join(ROOT, 'tsconfig.json'), (path) => readFileSync(path, 'utf8')) as { config: { compilerOptions: object } };
    const { options } = typescript.convertCompilerOptionsFromJson({ ...config.compilerOptions, rootDir: FOLDER, outDir: FOLDER, declaration: false, skipLibCheck: true }, ROOT);
    const program = typescript.createProgram(files, options);
    const problems = [...typescript.getPreEmitDiagnostics(program), ...program.emit().diagnostics];
    assert.deepEqual(problems.map((problem) => `${problem.file?.fileName}: ${typescript.flattenDiagnosticMessageText(problem.messageText, '\n')}`), []);
    assert.equal(snippets.length, printed.length);
  });

  test('its snippets run, one after the other, and print what they should', { timeout: 900_000 }, async (context) => {
    const scene = new Scene(context);
    const url = await startServer(join(scene.folder, 'server'), (ending) => scene.atEnd(ending));
    const there = join(scene.folder, 'there');
    mkdirSync(there);
    const environment = {
      ...model.environment(scene, 'machine'),
      PATH: process.env['PATH'] ?? '',
      UNFORGET_BIN: PROGRAM,
      UNFORGET_URL: url,
      CONVERSATIONS: pathToFileURL(there).href,
    };
    for (const [at, expected] of printed.entries()) {
      const { stdout } = await run(process.execPath, [join(FOLDER, `${at + 1}.mjs`)], { cwd: scene.folder, env: environment, timeout: 60_000 });
      assert.match(stdout, expected, `snippet ${at + 1}`);
    }
  });
});
