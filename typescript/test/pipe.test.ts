/**
 * The child process: who finds it, who shares it, how long it lives.
 */

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { UnforgetError, UnforgetSessionStore } from 'unforget';

import { needsProgram, PROGRAM, Scene, within } from './scene.js';

const KEY = { projectKey: 'shop', sessionId: 'visit' };
const PACKAGE = fileURLToPath(new URL('../dist/index.js', import.meta.url));
const run = promisify(execFile);

/** Runs a program of its own with this package; what it printed. */
async function elsewhere(text: string, environment: Record<string, string> = {}): Promise<string> {
  const source = `import { UnforgetSessionStore } from ${JSON.stringify(PACKAGE)};\n${text}`;
  const arguments_ = ['--input-type=module', '--eval', source];
  return (await run(process.execPath, arguments_, { env: { ...process.env, ...environment }, timeout: 60_000 })).stdout;
}

describe('the program', { skip: needsProgram }, () => {
  test('P1: that is not there is told by the constructor, with what to do', async (context) => {
    const scene = new Scene(context);
    const isMissing = (said: RegExp) => (error: unknown) => error instanceof UnforgetError && error.code === 'missing_program' && said.test(error.message);
    const named = (): unknown => new UnforgetSessionStore({ home: scene.folder, binary: join(scene.folder, 'nothing') });
    assert.throws(named, isMissing(/`binary` says that the program is .*nothing, and there is none/));
    const text = `try {
        new UnforgetSessionStore({ home: ${JSON.stringify(scene.folder)} });
      } catch (error) {
        console.log(error.code, error.message);
      }`;
    assert.match(await elsewhere(text, { PATH: scene.folder, UNFORGET_BIN: '' }), /^missing_program .*not in PATH: install it, or say where it is/);
    assert.match(await elsewhere(text, { UNFORGET_BIN: '/no/such' }), /^missing_program UNFORGET_BIN says that the program is \/no\/such/);
  });

  test('is found by the option, by UNFORGET_BIN and in PATH, in this order', async (context) => {
    const scene = new Scene(context);
    const folder = join(scene.folder, 'bin');
    mkdirSync(folder);
    const told = (name: string): string => scene.script(name, `echo ${name.split('/').at(-1)} >&2\nexec '${PROGRAM}' "$@"`);
    const [first, second, third] = [told('first'), told('second'), told('bin/unforget')];
    assert.ok(third.startsWith(folder));
    const text = (binary: string): string => `const store = new UnforgetSessionStore({ home: ${JSON.stringify(scene.folder)}, log: console.log, ${binary} });
      await store.load({ projectKey: 'p', sessionId: 's' });
      await store.close();`;
    const PATH = `${folder}:${process.env['PATH']}`;
    assert.match(await elsewhere(text(`binary: ${JSON.stringify(first)}`), { PATH, UNFORGET_BIN: second }), /^first\n/);
    assert.match(await elsewhere(text(''), { PATH, UNFORGET_BIN: second }), /^second\n/);
    assert.match(await elsewhere(text(''), { PATH, UNFORGET_BIN: '' }), /^unforget\n/);
  });

  test('that speaks another version is refused', async (context) => {
    const scene = new Scene(context);
    const binary = scene.named('future', `read line\necho '{"id":0,"ok":{"protocol":2,"server":"future","remote":null}}'\ncat`);
    await assert.rejects(within(60_000, scene.open({ home: scene.folder, binary }).load(KEY)), { code: 'protocol', message: /version 2 of the protocol/ });
  });

  for (const name of ['cat', 'echo', 'true', 'false', 'ls', 'yes']) {
    test(`P8: that is another program (${name}) is named, with what to do`, { skip: process.platform === 'win32' }, async (context) => {
      const scene = new Scene(context);
      const store = scene.open({ home: scene.folder, binary: name });
      const message = new RegExp(`/${name} is not the program unforget.*UNFORGET_BIN`, 's');
      await assert.rejects(within(120_000, store.load(KEY)), { code: 'missing_program', message });
    });
  }

  test('that is ended by somebody is tried a few times, and its last words are told', async (context) => {
    const scene = new Scene(context);
    const log: string[] = [];
    const binary = scene.named('killed', 'echo the memory is gone >&2\nkill -9 $$');
    const store = scene.open({ home: scene.folder, binary, log: (line) => log.push(line) });
    await assert.rejects(within(60_000, store.load(KEY)), { code: 'missing_program', message: /SIGKILL: the memory is gone/ });
    assert.deepEqual(log, Array.from({ length: 6 }, () => 'the memory is gone'));
  });

  test('P8: that cannot open its store is tried once, and names the folder', async (context) => {
    const scene = new Scene(context);
    const log: string[] = [];
    const binary = scene.named('broken', 'echo the disk is gone >&2\nexit 3');
    const store = scene.open({ home: scene.folder, binary, log: (line) => log.push(line) });
    const message = new RegExp(`cannot open the store in ${scene.folder} .*code 3: the disk is gone`);
    await assert.rejects(within(60_000, store.load(KEY)), { code: 'storage', message });
    assert.deepEqual(log, ['the disk is gone']);
    const nowhere = scene.open({ home: '/dev/null/store', binary: PROGRAM });
    await assert.rejects(within(60_000, nowhere.connect()), { code: 'storage', message: /\/dev\/null\/store/ });
  });

  test('P8: whose remote folder is missing names it', async (context) => {
    const scene = new Scene(context);
    const missing = `${scene.folder}/missing`;
    const store = scene.open({ home: scene.folder, binary: PROGRAM, remote: `file://${missing}`, ack: 'remote', log: () => {} });
    const message = new RegExp(`there is no directory ${missing}.*mkdir -p`);
    await assert.rejects(within(120_000, store.load(KEY)), { code: 'unavailable', message });
  });

  test('that does not like its settings is told at once, with all its words', async (context) => {
    const scene = new Scene(context);
    const { binary, processes } = scene.counted();
    const refused = scene.open({ home: scene.folder, binary, remote: false, ack: 'remote' });
    await assert.rejects(within(60_000, refused.load(KEY)), { code: 'invalid', message: /code 2: .*needs a remote/s });
    assert.equal(processes().length, 1);
    const old = scene.named('old', `echo "error: unrecognized subcommand 'store'" >&2\necho "try --help" >&2\nexit 2`);
    await assert.rejects(within(60_000, scene.open({ home: scene.folder, binary: old }).load(KEY)), { code: 'invalid', message: /unrecognized subcommand/ });
  });

  test('does without a remote if it is told to', async (context) => {
    const scene = new Scene(context);
    const log: string[] = [];
    const binary = scene.script('told', `echo "$@" >&2\nexec '${PROGRAM}' "$@"`);
    await scene.open({ home: scene.folder, binary, remote: false, log: (line) => log.push(line) }).load(KEY);
    assert.match(log[0] ?? '', /--no-remote/);
  });

  test('that there is no room for at this moment does not end whoever uses it', { skip: process.platform === 'win32' }, async (context) => {
    const scene = new Scene(context);
    const text = `import { closeSync, openSync } from 'node:fs';
      const store = new UnforgetSessionStore(${JSON.stringify(scene.local({}))});
      const key = { projectKey: 'shop', sessionId: 'visit' };
      const open = [];
      try {
        for (;;) open.push(openSync('/dev/null'));
      } catch (error) {
        console.log(error.code);
      }
      await store.load(key).catch((error) => console.log(error.code, error.message));
      open.forEach((file) => closeSync(file));
      console.log(await store.load(key));
      await store.close();`;
    const program = scene.script('few', `ulimit -n 64\nexec '${process.execPath}' --input-type=module --eval "$1"`);
    const source = `import { UnforgetSessionStore } from ${JSON.stringify(PACKAGE)};\n${text}`;
    const { stdout } = await within(60_000, run(program, [source]));
    assert.match(stdout, /^EMFILE\nmissing_program .*EMFILE\)\nnull\n$/);
  });

  test('is shared by those who say the same, and by nobody else', async (context) => {
    const scene = new Scene(context);
    const { binary, processes } = scene.counted();
    const same = [scene.open(scene.local({ binary })), scene.open(scene.local({ binary })), scene.open({ ...scene.local({ binary }), project: 'p' })];
    await Promise.all(same.map((store) => store.append(KEY, [{ type: 'x' }])));
    assert.equal(processes().length, 1);
    await scene.open(scene.local({ binary }, 'another')).load(KEY);
    assert.equal(processes().length, 2);
    await same[0]?.close();
    assert.deepEqual(await same[1]?.load(KEY), [{ type: 'x' }, { type: 'x' }]);
    assert.equal(processes().length, 2);
  });

  test('ends when the last one closes it, after everything was answered', async (context) => {
    const scene = new Scene(context);
    const { binary, processes } = scene.counted();
    const [first, second] = [new UnforgetSessionStore(scene.local({ binary })), new UnforgetSessionStore(scene.local({ binary }))];
    const appended = Array.from({ length: 20 }, (_, n) => first.append(KEY, [{ type: 'x', n }]));
    await first.close();
    const later = second.append(KEY, [{ type: 'last' }]);
    await second.close();
    await Promise.all([...appended, later]);
    const [process_] = processes();
    assert.throws(() => process.kill(process_ ?? Number.NaN, 0), { code: 'ESRCH' });
    await assert.rejects(first.load(KEY), { code: 'closed' });
    await assert.rejects(first.append(KEY, []), { code: 'closed' });
    await assert.rejects(second.listSessions('shop'), { code: 'closed' });
    await second.close();
    assert.equal((await scene.open(scene.local({})).load(KEY))?.length, 21);
  });

  test('does not keep a process alive that has nothing to ask', async (context) => {
    const scene = new Scene(context);
    const options = JSON.stringify(scene.local({}));
    const text = `const store = new UnforgetSessionStore(${options});
      await store.append({ projectKey: 'shop', sessionId: 'visit' }, [{ type: 'x' }]);
      await store.load({ projectKey: 'shop', sessionId: 'visit' });
      console.log('over');`;
    assert.equal(await within(30_000, elsewhere(text)), 'over\n');
    assert.deepEqual(await scene.open(scene.local({})).load(KEY), [{ type: 'x' }]);
  });

  test('keeps a process alive that waits for an answer', async (context) => {
    const scene = new Scene(context);
    // Nobody holds the process but what it asked: if that did not, it would end without a word.
    const text = `const store = new UnforgetSessionStore(${JSON.stringify(scene.local({}))});
      store.append({ projectKey: 'shop', sessionId: 'visit' }, [{ type: 'x' }]).then(() => store.load({ projectKey: 'shop', sessionId: 'visit' }))
        .then((entries) => console.log(JSON.stringify(entries)));`;
    assert.equal(await within(30_000, elsewhere(text)), '[{"type":"x"}]\n');
  });

  test('is not ended by Ctrl-C, which is for whoever uses it', { skip: process.platform === 'win32' }, async (context) => {
    const scene = new Scene(context);
    const { binary, processes } = scene.counted();
    const text = `import { UnforgetSessionStore } from ${JSON.stringify(PACKAGE)};
      const store = new UnforgetSessionStore(${JSON.stringify(scene.local({ binary }))});
      const key = { projectKey: 'shop', sessionId: 'visit' };
      process.once('SIGINT', async () => {
        await store.append(key, [{ type: 'last words' }]);
        process.exit(0);
      });
      await store.append(key, [{ type: 'first' }]);
      console.log('ready');
      setInterval(() => undefined, 1000);`;
    const child = spawn(process.execPath, ['--input-type=module', '--eval', text], { detached: true, stdio: ['ignore', 'pipe', 'inherit'] });
    const over = once(child, 'close');
    await within(30_000, once(child.stdout, 'data'));
    // As a terminal does it: to everybody in the group.
    process.kill(-(child.pid ?? Number.NaN), 'SIGINT');
    assert.deepEqual(await within(30_000, over), [0, null]);
    assert.equal(processes().length, 1);
    assert.deepEqual(await scene.open(scene.local({})).load(KEY), [{ type: 'first' }, { type: 'last words' }]);
  });

  test('is started again after it was killed while nobody asked', async (context) => {
    const scene = new Scene(context);
    const { binary, processes } = scene.counted();
    const store = scene.open(scene.local({ binary }));
    for (const n of [1, 2, 3]) {
      await store.append(KEY, [{ type: 'x', n }]);
      process.kill(processes().at(-1) ?? Number.NaN, 'SIGKILL');
    }
    assert.deepEqual(await store.load(KEY), [1, 2, 3].map((n) => ({ type: 'x', n })));
    assert.equal(new Set(processes()).size, 4);
  });

  test('answers in any order', async (context) => {
    const scene = new Scene(context);
    // Holds the first answer back until the second one is out.
    const binary = scene.script(
      'unordered',
      `read hello\necho '{"id":0,"ok":{"protocol":1,"server":"s","remote":null}}'\nread a\nread b
       echo '{"ok":["second"],"id":2}'\necho '{"id":1,"ok":["first"]}'\nexec cat > /dev/null`,
    );
    const store = scene.open({ home: scene.folder, binary });
    const asked = [store.listSubkeys(KEY), store.listSubkeys({ ...KEY, sessionId: 'other' })];
    assert.deepEqual(await within(60_000, Promise.all(asked)), [['first'], ['second']]);
  });

  test('that does not read is waited for, and lines of 100 megabytes come through', { timeout: 900_000 }, async (context) => {
    const scene = new Scene(context);
    // Reads a line of 100 megabytes in its own time, and answers with one.
    const program = `
      const { createInterface } = require('node:readline');
      createInterface({ input: process.stdin }).on('line', (line) => {
        const { id, op, entries } = JSON.parse(line);
        const page = { entries: [{ type: 'x', length: line.length, text: 'y'.repeat(100e6) }], cursor: 'c', more: false, again: false };
        process.stdout.write(JSON.stringify({ id, ok: op === 'hello' ? { protocol: 1 } : op === 'read' ? page : null }) + '\\n');
      });`;
    const binary = scene.script('large', `exec '${process.execPath}' -e '${program.replaceAll("'", `'"'"'`)}'`);
    const store = scene.open({ home: scene.folder, binary });
    await store.append(KEY, Array.from({ length: 100 }, (_, n) => ({ type: 'x', uuid: `${n}`, text: 'z'.repeat(1e6) })));
    const [entry] = (await store.load(KEY)) ?? [];
    assert.equal((entry?.['text'] as string).length, 100e6);
  });

  test('options that contradict each other are refused', () => {
    const wrong = { url: 'http://localhost:1', home: 'x' } as unknown as { url: string };
    assert.throws(() => new UnforgetSessionStore(wrong), { code: 'invalid', message: /`home` is for a store on this machine/ });
    assert.throws(() => new UnforgetSessionStore({ url: 'ftp://localhost' }), { code: 'invalid' });
    assert.throws(() => new UnforgetSessionStore({ url: 'nowhere' }), { code: 'invalid' });
  });
});
