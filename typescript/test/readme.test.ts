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
import { refusing, startServer } from './server.js';

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

  test('P1: its first snippet fails where nothing can be saved, and asks no model', { timeout: 900_000 }, async (context) => {
    const scene = new Scene(context);
    const environment = { ...model.environment(scene, 'machine'), PATH: join(scene.folder, 'bin') };
    const [there, nowhere] = [{ ...environment, UNFORGET_BIN: PROGRAM }, environment];
    const start = (env: Record<string, string>, name: string) => run(process.execPath, [join(FOLDER, name)], { cwd: scene.folder, env, timeout: 120_000 });
    await assert.rejects(start(nowhere, '1.mjs'), { code: 1, stderr: /not in PATH: install it/ });
    const text = readFileSync(join(FOLDER, '1.mjs'), 'utf8');
    // A folder that cannot be made, and a server that refuses.
    for (const [options, said] of [
      ["{ home: '/dev/null/conversations', project: 'shop' }", /cannot open the store in \/dev\/null\/conversations/],
      [`{ url: '${await refusing(scene)}', token: 'wrong' }`, /who are you\?/],
    ] as const) {
      const changed = text.replace("{ home: './conversations', project: 'shop' }", options);
      assert.notEqual(changed, text);
      writeFileSync(join(FOLDER, 'unsaved.mjs'), changed);
      await assert.rejects(start(there, 'unsaved.mjs'), { code: 1, stderr: said, stdout: '' });
      // Whoever leaves `connect` out is told by the SDK's messages.
      if (options.includes('url')) {
        writeFileSync(join(FOLDER, 'unsaved.mjs'), changed.replace(/^await sessionStore.connect.*$/m, ''));
        await assert.rejects(start(there, 'unsaved.mjs'), { code: 1, stderr: /not saved: who are you\?/, stdout: '' });
      }
    }
  });

  test('P3: its snippets hand entries over as they come', () => {
    const asking = snippets.filter((text) => text.includes('query({'));
    assert.equal(asking.length, 1);
    assert.ok(asking.every((text) => text.includes("sessionStoreFlush: 'eager'")));
  });

  test('its snippets run, one after the other, and print what they should', { timeout: 900_000 }, async (context) => {
    const scene = new Scene(context);
    const { url, token } = await startServer(join(scene.folder, 'server'), (ending) => scene.atEnd(ending));
    const there = join(scene.folder, 'there');
    mkdirSync(there);
    const environment = {
      ...model.environment(scene, 'machine'),
      PATH: process.env['PATH'] ?? '',
      UNFORGET_BIN: PROGRAM,
      UNFORGET_URL: url,
      UNFORGET_TOKEN: token,
      CONVERSATIONS: pathToFileURL(there).href,
    };
    for (const [at, expected] of printed.entries()) {
      const { stdout } = await run(process.execPath, [join(FOLDER, `${at + 1}.mjs`)], { cwd: scene.folder, env: environment, timeout: 60_000 });
      assert.match(stdout, expected, `snippet ${at + 1}`);
    }
  });
});
