// A scene for a test: a folder of its own with a home in it, the model's stand-in, the server, perhaps a network that can fail. It ends with the test.

import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { atEnd } from './ending.mjs';
import { api, authorization, run, server } from './programs.mjs';
import { proxy } from './proxy.mjs';
import { until } from './until.mjs';

/** An empty folder that goes with the test. */
export function folder(t) {
  const place = mkdtempSync(path.join(os.tmpdir(), 'unforget-page-'));
  atEnd(t, () => rmSync(place, { recursive: true, force: true, maxRetries: 5 }));
  return place;
}

/**
 * `transcripts` are put into the home; `copy` is a folder to begin with, `folder` one to use as it is. `pace` is the time between two pieces of an answer, in milliseconds;
 * with `model: false` nobody answers. `tokens` are names of people who get one. `network: true` puts a network in between that can fail.
 */
export async function scene(t, options = {}) {
  const { transcripts = [], copy, pace = 0, model = true, tokens = [], network = false, args = [], env = {}, api: more = {} } = options;
  const place = options.folder ?? folder(t);
  if (copy) cpSync(copy, place, { recursive: true });
  for (const transcript of transcripts) transcript.save(place);
  const given = Object.fromEntries(tokens.map((name) => [name, run(place, ['token', 'add', name]).trim().split('\n').at(-1)]));
  const maker = model ? await api({ pace, ...more }) : undefined;
  const asked = maker ? { ANTHROPIC_BASE_URL: maker.url, ANTHROPIC_API_KEY: 'sk-ant-nobody-sees-this' } : {};
  const relay = network ? await proxy() : undefined;
  const known = relay ? ['--allow-host', new URL(relay.url).host, '--allow-origin', relay.url] : [];
  const serving = await server(place, { args: [...known, ...args], env: { ...asked, ...env } });
  relay?.to(serving.url);
  atEnd(t, async () => {
    relay?.stop();
    await serving.kill();
    await maker?.kill();
  });
  return new Scene(place, { serving, maker, relay, tokens: given });
}

class Scene {
  constructor(place, parts) {
    Object.assign(this, { folder: place, ...parts });
  }

  /** Where the page is. */
  get url() {
    return (this.relay ?? this.serving).url;
  }

  /** A command of the program on the same home. */
  run(args, options) {
    return run(this.folder, args, options);
  }

  /** The server's HTTP interface, past the network. */
  async ask(method, where, body) {
    const response = await fetch(new URL(where, this.serving.url), {
      method,
      headers: { ...authorization(this.serving.url), ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${where}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  }

  /** The ids of the sessions of an agent, oldest first. */
  sessions(agent = 'main') {
    try {
      const names = readdirSync(path.join(this.folder, 'home/agents', agent, 'sessions'));
      return names.filter((name) => name.endsWith('.jsonl')).map((name) => name.slice(0, -6)).sort();
    } catch {
      return [];
    }
  }

  file(id, agent = 'main') {
    return path.join(this.folder, 'home/agents', agent, 'sessions', `${id}.jsonl`);
  }

  /** What is in the file of a session. */
  records(id, agent = 'main') {
    const lines = readFileSync(this.file(id, agent), 'utf8').split('\n');
    return lines.slice(0, -1).map((line) => JSON.parse(line));
  }

  /** Waits until the file of a session is as a function wants it, and returns its records. */
  recorded(id, what, isSo) {
    return until(what, () => {
      const records = this.records(id);
      return isSo(records) && records;
    });
  }

  /** What is in the file of what people and the model said, in order: `['user', text]`. */
  said(id) {
    const text = (content) => (typeof content === 'string' ? content : content.map((block) => block.text ?? '').join(''));
    const spoken = this.records(id).filter(({ type }) => type === 'user' || type === 'assistant');
    return spoken.map(({ type, content }) => [type, text(content)]);
  }
}
