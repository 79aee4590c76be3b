// The real programs as processes: the server on a home, the stand-in of the model's maker, and single commands.
//
// Each is started on a free port and says where it is. What they say on stderr is kept, and shown when something goes wrong.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

import { programs } from './places.mjs';

/** The environment of the program: nothing of the tester's own gets in. */
export function environment(folder, more = {}) {
  const place = (name) => path.join(folder, name);
  return {
    HOME: place('person'),
    XDG_CONFIG_HOME: place('config'),
    XDG_DATA_HOME: place('data'),
    XDG_STATE_HOME: place('state'),
    UNFORGET_HOME: place('home'),
    PATH: '/usr/local/bin:/usr/bin:/bin',
    LANG: 'C.UTF-8',
    TZ: 'UTC',
    ...more,
  };
}

/** Runs a command to its end, and returns what it printed. */
export function run(folder, args, { input = '', env = {}, codes = [0] } = {}) {
  const work = path.join(folder, 'work');
  mkdirSync(work, { recursive: true });
  const said = spawnSync(programs.unforget, args, {
    cwd: work,
    env: environment(folder, env),
    input,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (said.error) throw said.error;
  if (!codes.includes(said.status)) {
    throw new Error(`unforget ${args.join(' ')} ended with ${said.status ?? said.signal}:\n${said.stdout}${said.stderr}`);
  }
  return said.stdout;
}

const running = new Set();

// Whatever happens to the tests, nothing of theirs stays.
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

/** A process whose first line says where it is. */
class Program {
  constructor(command, args, options, readFirst) {
    this.start = () => begin(this, command, args(this), options, readFirst);
    this.errors = '';
  }

  /** As a machine does that is gone. */
  async kill(signal = 'SIGKILL') {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'exit');
    this.child.kill(signal);
    await ended;
  }
}

async function begin(program, command, args, options, readFirst) {
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  program.child = child;
  running.add(child);
  child.once('exit', () => running.delete(child));
  child.stderr.setEncoding('utf8').on('data', (text) => (program.errors = (program.errors + text).slice(-20_000)));
  let line = '';
  let isKnown = false;
  await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => isKnown || reject(new Error(`${command} ended with ${code}:\n${line}${program.errors}`)));
    child.stdout.setEncoding('utf8').on('data', (text) => {
      if (isKnown) return;
      line += text;
      if (!line.includes('\n')) return;
      isKnown = true;
      program.url = readFirst(line.split('\n')[0], program);
      resolve();
    });
  });
  return program;
}

/** The owner's token of each server that was started, by its address; none of one that is for others. */
const owners = new Map();

/** What a program sends to the server at an address that is for its owner: the token that only the owner can read. */
export const authorization = (url) => (owners.get(url) ? { authorization: `Bearer ${owners.get(url)}` } : {});

/** The cookies of a browser that the owner has logged in: to the server at an address, or to the last one that was started. */
export function loggedIn(url) {
  const origin = url && owners.has(new URL(url).origin) ? new URL(url).origin : [...owners.keys()].at(-1);
  const value = origin && owners.get(origin);
  return value ? [{ name: 'unforget_token', value, domain: new URL(origin).hostname, path: '/', httpOnly: true, sameSite: 'Strict' }] : [];
}

/** The server on the home of a folder. After `kill`, `start` begins it again at the same address. */
export function server(folder, { args = [], env = {} } = {}) {
  const work = path.join(folder, 'work');
  mkdirSync(work, { recursive: true });
  const where = (program) => new URL(program.url ?? 'http://127.0.0.1:0').port || '0';
  const all = (program) => ['serve', '--json', '--listen', `127.0.0.1:${where(program)}`, ...args];
  const options = { cwd: work, env: environment(folder, env) };
  const readFirst = (line, program) => {
    const { listening, token_file: file, link } = JSON.parse(line);
    owners.delete(listening);
    owners.set(listening, file && readFileSync(file, 'utf8').trim());
    program.link = link;
    return listening;
  };
  return new Program(programs.unforget, all, options, readFirst).start();
}

/** The stand-in of the model's maker; `pace` is how many milliseconds lie between two pieces of an answer. It comes back at the same address, too. */
export function api({ pace = 0, args = [] } = {}) {
  const where = (program) => (program.url ? ['--port', new URL(program.url).port] : []);
  const all = (program) => ['--pace', String(pace), ...where(program), ...args];
  return new Program(programs.api, all, { env: {} }, (line) => line.trim()).start();
}
