// pi: `SessionManager`, one JSON-lines file a session, appended without a sync and read whole.
//
// The same conversation with the driver as in common.py.

import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { performance } from "node:perf_hooks";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const option = (name) => process.argv[process.argv.indexOf(name) + 1];
const work = option("--work");
const modules = option("--modules");
const packageFile = join(modules, "@mariozechner/pi-coding-agent/package.json");
const description = JSON.parse(readFileSync(packageFile, "utf8"));
const entry = pathToFileURL(join(dirname(packageFile), description.main)).href;
const { SessionManager } = await import(entry);

const text = (content) => (typeof content === "string" ? content : content.map((block) => block.text ?? "").join(""));
const usage = {
  input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};

function answer(content, timestamp) {
  const model = { api: "anthropic-messages", provider: "anthropic", model: "claude-sonnet-4-5" };
  return { role: "assistant", content, ...model, usage, stopReason: "stop", timestamp };
}

function messages(sources) {
  const made = [];
  for (const source of sources) {
    const timestamp = source.ts ? Date.parse(source.ts) : Date.now();
    const last = made.at(-1);
    if (source.type === "user") {
      made.push({ role: "user", content: [{ type: "text", text: text(source.content) }], timestamp });
    } else if (source.type === "assistant") {
      made.push(answer([{ type: "text", text: text(source.content) }], timestamp));
    } else if (source.type === "tool_use") {
      const call = { type: "toolCall", id: source.tool_use_id, name: source.name, arguments: source.input };
      if (last?.role === "assistant") last.content.push(call);
      else made.push(answer([call], timestamp));
    } else if (source.type === "tool_result") {
      const output = typeof source.output === "string" ? source.output : JSON.stringify(source.output);
      made.push({
        role: "toolResult", toolCallId: source.tool_use_id, toolName: "read_file",
        content: [{ type: "text", text: output }], isError: false, timestamp,
      });
    }
  }
  return made;
}

const lines = (file) => readFileSync(file, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));

function folder(name) {
  const path = join(work, name);
  mkdirSync(path, { recursive: true });
  return path;
}

const create = (name) => SessionManager.create("/bench", folder(name));
const add = (session, made) => made.forEach((message) => session.appendMessage(message));

function status(field) {
  const line = readFileSync("/proc/self/status", "ascii").split("\n").find((line) => line.startsWith(field));
  return line ? Number(line.split(/\s+/)[1]) * 1024 : 0;
}

async function timed(job) {
  const begun = performance.now();
  const count = await job();
  return { seconds: (performance.now() - begun) / 1000, count };
}

async function measured(job) {
  try {
    writeFileSync("/proc/self/clear_refs", "5");
  } catch {
    // The peak is then that of the whole process.
  }
  const before = status("VmRSS");
  const reply = await timed(job);
  return { ...reply, peak: Math.max(0, status("VmHWM") - before) };
}

const fileOf = (name, part) => join(folder(name), readdirSync(folder(name)).find((file) => file.includes(part)));
const load = (path) => SessionManager.open(path).buildSessionContext().messages.length;
const turns = process.argv.includes("--turns") ? lines(option("--turns")).map(messages) : [];
const opened = {};

const operations = {
  hello: () => ({ version: description.version, sync: "never" }),
  fill({ folder: name, sessions, others, history }) {
    for (let other = 0; other < others; other++) add(create(name), turns[other % turns.length]);
    opened[name] = Array.from({ length: sessions }, () => create(name));
    if (history) add(opened[name][0], messages(lines(history)));
    return {};
  },
  append: ({ folder: name, turn }) => timed(() => add(opened[name][0], turns[turn % turns.length])),
  // One thread is all there is: the calls are synchronous.
  many: ({ folder: name, sessions, turns: count }) =>
    timed(() => {
      for (let turn = 0; turn < count; turn++) add(opened[name][turn % sessions], turns[turn % turns.length]);
    }),
  take_session({ file }) {
    add(create("long"), messages(lines(file)));
    return {};
  },
  whole: () => measured(() => load(fileOf("long", ".jsonl"))),
  resume: ({ records }) =>
    measured(() => SessionManager.open(fileOf("long", ".jsonl")).buildSessionContext().messages.slice(-records).length),
  take_store({ store }) {
    const ids = openSync(join(folder("."), "ids.jsonl"), "w");
    for (const row of lines(join(store, "plan.jsonl"))) {
      const session = create("store");
      add(session, messages(lines(join(store, row.file))));
      writeSync(ids, `${JSON.stringify([row.id, session.getSessionId()])}\n`);
    }
    closeSync(ids);
    return {};
  },
  list: ({ limit }) => timed(async () => (await SessionManager.list("/bench", folder("store"))).slice(0, limit).length),
  // By the id in the file's name, which is less work than a list.
  open({ id }) {
    const own = lines(join(folder("."), "ids.jsonl")).find(([theirs]) => theirs === id)[1];
    return timed(() => load(fileOf("store", own)));
  },
};

if (process.argv.includes("--start")) {
  SessionManager.continueRecent("/bench", folder("store")).buildSessionContext();
  process.stdout.write("> ", () => process.exit(0));
} else {
  for await (const line of createInterface({ input: process.stdin })) {
    const { op, ...request } = JSON.parse(line);
    let reply;
    try {
      reply = operations[op] ? await operations[op](request) : { missing: "it has no such thing" };
    } catch (error) {
      console.error(error);
      reply = { error: String(error).slice(0, 300) };
    }
    process.stdout.write(`${JSON.stringify(reply)}\n`);
  }
}
