// Transcripts as docs/format.md has them: numbers, parents, times and checksums are set here, and everything else as given.
//
// A line can also be written as no program would: `raw` takes any bytes. So what is read back may be damaged, hostile or older than the program.

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';

/** What is no step of the conversation has no parent. */
const beside = new Set(['session', 'head', 'label', 'title', 'expire']);
const step = 1000;

/** An id of a session: a UUID of version 7 with that time, and a number that tells it from others. */
export function sessionId(ms, number = 0) {
  const time = ms.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${number.toString(16).padStart(12, '0')}`;
}

export class Transcript {
  /** Begins with the header. `begun` is when, in milliseconds. */
  constructor({ key = 'main:web:ada', begun = Date.parse('2026-03-01T09:00:00Z'), number = 0, label, id, ...more } = {}) {
    this.key = key;
    this.agent = key.startsWith('agent:') ? key.split(':')[1] : key.split(':')[0];
    this.id = id ?? sessionId(begun, number);
    this.now = begun;
    this.next = 0;
    this.head = null;
    this.crc = 0;
    this.lines = [];
    this.add('session', { id: this.id, key, ...(label ? { label } : {}), ...more });
    // The first step follows the header.
    this.head = 0;
  }

  /** Appends a record, and returns its number. `parent` may be given; `later` is by how many milliseconds. */
  add(type, { parent, later = step, ...members } = {}) {
    const n = this.next++;
    this.now += later;
    const envelope = { v: 1, n };
    if (!beside.has(type)) {
      const follows = parent === undefined ? this.head : parent;
      if (follows !== null) envelope.parent = follows;
      this.head = n;
    }
    if (type === 'head') this.head = members.to;
    const text = JSON.stringify({ ...envelope, type, ts: new Date(this.now).toISOString(), ...members }).slice(0, -1);
    return this.#checked(text, n);
  }

  /** Appends a record whose members are JSON text, for what no value can be: `"content":"\ud800"`. */
  written(type, members) {
    const n = this.next++;
    this.now += step;
    const parent = this.head === null ? '' : `,"parent":${this.head}`;
    this.head = n;
    const ts = new Date(this.now).toISOString();
    return this.#checked(`{"v":1,"n":${n}${parent},"type":"${type}","ts":"${ts}",${members}`, n);
  }

  #checked(text, n) {
    const before = Buffer.alloc(4);
    before.writeUInt32LE(this.crc);
    this.crc = crc32(text, crc32(before));
    this.lines.push(Buffer.from(`${text},"crc":"${this.crc.toString(16).padStart(8, '0')}"}\n`));
    return n;
  }

  /** Bytes where a line would be; its number is used up. */
  raw(bytes) {
    this.lines.push(Buffer.concat([Buffer.from(bytes), Buffer.from('\n')]));
    this.crc = 0;
    return this.next++;
  }

  // What is said most.

  user(content, more = {}) {
    return this.add('user', { content, ...more });
  }

  /** One answer of the model: its parts, and the end of the turn behind them. */
  assistant(content, { usage = { input_tokens: 1200, output_tokens: 80 }, model = 'claude-opus-5', ...more } = {}) {
    const msg = `msg_${this.next}`;
    const n = this.add('assistant', { msg, model, content: typeof content === 'string' ? [{ type: 'text', text: content }] : content, ...more });
    this.add('turn', { state: 'done', usage, model, stop_reason: 'end_turn', later: 1 });
    return n;
  }

  /** A call and its result. */
  tool(name, input, output, { id = `toolu_${this.next}`, ms = 12, isError = false, ...more } = {}) {
    const call = this.add('tool_use', { msg: `msg_${this.next}`, tool_use_id: id, name, input });
    this.add('turn', { state: 'running', usage: { input_tokens: 900, output_tokens: 40 }, model: 'claude-opus-5', stop_reason: 'tool_use', later: 1 });
    if (output === undefined) return call;
    this.add('tool_result', { tool_use_id: id, output, ...(isError ? { is_error: true } : {}), ms, ...more });
    return call;
  }

  title(title) {
    return this.add('title', { title });
  }

  bytes() {
    return Buffer.concat(this.lines);
  }

  /** Writes it where the store of a folder keeps it. */
  save(folder) {
    const place = path.join(folder, 'home/agents', encoded(this.agent), 'sessions');
    mkdirSync(place, { recursive: true, mode: 0o700 });
    const file = path.join(place, `${this.id}.jsonl`);
    writeFileSync(file, this.bytes(), { mode: 0o600 });
    return this;
  }
}

/** The directory of an agent. */
function encoded(agent) {
  return [...Buffer.from(agent)].map((byte) => (/[a-z0-9_-]/.test(String.fromCharCode(byte)) ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, '0')}`)).join('');
}
