// A conversation as the page has it, held against what a server may say.
// @ts-nocheck: Node's own modules have no types here; what is tested has.
import assert from "node:assert/strict";
import { test } from "node:test";
import { stage } from "./stage";
import { leave } from "../src/outbox";
import { Talk } from "../src/talk";

const path = { at: 2, head: 2, last: 2, ranges: [[1, 2]], compactions: [], damage: [], notes: [0] };
const sound = (asked) => [200, asked.includes("/path") ? path : { id: "s" }];
const attached = { type: "attached", session_id: "s", n: 2, turn: null, queued: 0, interrupted: null };
/** As long as promises take that nothing holds. */
const settled = async () => {
  for (let round = 0; round < 20; round++) await Promise.resolve();
};
let ids = 0;

/** A conversation that is connected. */
const begun = async (first = attached) => {
  stage.answer = sound;
  const talk = new Talk(`s${ids++}`, null);
  await settled();
  const socket = stage.sockets.at(-1);
  socket.open();
  socket.tell(first, { type: "caught_up", n: 2 });
  return { talk, socket };
};

test("the end of an older prompt, told again, does not end the turn that runs", async () => {
  const { talk, socket } = await begun();
  talk.send("old");
  const { client_id } = socket.said.at(-1);
  socket.tell({ type: "started", client_id: "other" }, { type: "question", call_id: "c", name: "bash", input: {} });
  socket.tell({ type: "accepted", client_id, state: "done", duplicate: true }, { type: "done", client_id, state: "done", n: 2 });
  assert.equal(talk.running.value.client_id, "other");
  assert.equal(talk.questions.value.length, 1);
  assert.deepEqual(talk.pending.value, []);
  socket.tell({ type: "failed", client_id: "older", error: { message: "no" } });
  assert.equal(talk.failed.value, null);
  socket.tell({ type: "done", client_id: "other", state: "done", n: 3 });
  assert.equal(talk.running.value, null);
  talk.close();
});

test("words that were left are said also if nobody looks any more when the way was read", async () => {
  let read;
  stage.answer = (asked) => (asked.includes("/path") ? new Promise((resolve) => (read = () => resolve(sound(asked)))) : sound(asked));
  const id = `s${ids++}`;
  leave(id, "first words");
  const talk = new Talk(id, null);
  await settled();
  talk.close();
  const before = stage.sockets.length;
  read();
  await settled();
  assert.equal(stage.sockets.length, before + 1);
  const socket = stage.sockets.at(-1);
  socket.open();
  const { client_id, prompt } = socket.said.at(-1);
  assert.equal(prompt, "first words");
  socket.tell(attached, { type: "accepted", client_id, state: "running" });
  assert.equal(socket.readyState, 3, "and then it is over");
});

test("a failure is over when something else happened", async () => {
  const { talk, socket } = await begun();
  const fail = () => {
    socket.tell({ type: "failed", client_id: null, error: { message: "overloaded" } });
    assert.equal(talk.failed.value, "overloaded");
  };
  fail();
  socket.tell(attached);
  assert.equal(talk.failed.value, null);
  let n = 3;
  for (const record of [{ type: "head", to: 1 }, { type: "user", parent: 2, content: "x" }, { type: "turn", parent: 3, state: "done" }]) {
    fail();
    socket.tell({ type: "record", n, record: { v: 1, n, ...record } });
    assert.equal(talk.failed.value, null, record.type);
    n += 1;
  }
  talk.close();
});

test("the same words are told again", async () => {
  const { talk, socket } = await begun();
  const told = [];
  for (let turn = 0; turn < 2; turn++) {
    socket.tell({ type: "started", client_id: null }, { type: "done", client_id: null, state: "done", n: 2 });
    told.push(talk.told.value);
  }
  assert.deepEqual(told.map(({ words }) => words), ["Answered.", "Answered."]);
  assert.notEqual(told[0].times, told[1].times);
  talk.close();
});

test("what waits elsewhere is counted, and what waits here is not", async () => {
  const { talk, socket } = await begun({ ...attached, turn: { client_id: "a" }, queued: 1 });
  // What runs is told again to whoever attaches.
  socket.tell({ type: "started", client_id: "a" });
  assert.equal(talk.waitingElsewhere, 1);
  talk.send("mine");
  const { client_id } = socket.said.at(-1);
  socket.tell({ type: "queued", client_id, position: 2 }, { type: "accepted", client_id, state: "queued" });
  assert.equal(talk.waitingElsewhere, 1);
  socket.tell({ type: "done", client_id: "a", state: "done", n: 2 }, { type: "started", client_id: "b" });
  assert.equal(talk.waitingElsewhere, 0);
  talk.close();
});

test("who is turned away looks why, a few times, and again when somebody asks", async (t) => {
  const { talk, socket } = await begun();
  t.mock.timers.enable({ apis: ["setTimeout", "Date"], now: Date.now() });
  const first = stage.sockets.length;
  socket.end(1008);
  for (let round = 0; round < 30; round++) {
    t.mock.timers.tick(1000);
    await settled();
    const last = stage.sockets.at(-1);
    if (last.readyState === 0) last.end(1008);
  }
  assert.equal(stage.sockets.length - first, 3);
  assert.equal(talk.wire.standing.value, "refused");
  talk.tryAgain();
  assert.equal(stage.sockets.length - first, 4);
  stage.answer = () => [404, { error: { code: "not_found", message: "there is no such session" } }];
  stage.sockets.at(-1).end(1008);
  t.mock.timers.tick(1000);
  await settled();
  assert.equal(talk.phase.value, "gone");
  talk.close();
});
