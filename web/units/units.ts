// What needs no browser: orders, places, secrets, where a text is cut, and how a conversation goes.
// @ts-nocheck: Node's own modules have no types here; what is tested has.
import assert from "node:assert/strict";
import { test } from "node:test";
import { given } from "../src/code";
import { bars, layOut, roof } from "../src/draw";
import { ago, bytes, duration, money } from "../src/format";
import { cut, pieces, target } from "../src/markdown";
import { CLOSE, OPEN, hide, reveal, secrets } from "../src/mask";
import { find, foldOf, order, part, seek } from "../src/order";
import { said } from "../src/said";
import { cutAt, language, visible } from "../src/text";
import cases from "./secrets.json";
import "./edits";
import "./talk";

const path = (more) => ({ at: null, head: null, last: null, ranges: [], compactions: [], damage: [], notes: [], ...more });
const none = new Set();
const compaction = (n, first_kept, undone = false) => ({ n, first_kept, before: 9, after: 3, by: "model", undone });

test("secrets are those of the library", () => {
  for (const { text, secrets: wanted } of cases) {
    const whole = text.join("");
    assert.deepEqual(
      secrets(whole).map(([from, to]) => whole.slice(from, to)),
      wanted.map((parts) => parts.join("")),
      whole,
    );
  }
});

test("what stands for a secret cannot be forged, and is put back", () => {
  const forged = `${OPEN}\uE100${CLOSE} password=hunter2hunter2 token=abc123def456`;
  const hidden = hide(forged);
  assert.equal(hidden.text, `\uFFFD\uE100\uFFFD password=${OPEN}\uE100${CLOSE} token=${OPEN}\uE101${CLOSE}`);
  assert.deepEqual(hidden.secrets, ["hunter2hunter2", "abc123def456"]);
  assert.equal(reveal(hidden), forged.replace(OPEN, "\uFFFD").replace(CLOSE, "\uFFFD"));
  const many = hide("token=abc123def456 ".repeat(5000));
  assert.equal(reveal(many), "token=abc123def456 ".repeat(5000));
});

test("no text takes long to look through for secrets", () => {
  for (const unit of ["token=", "password: ", "sk-", "a.", "eyJ", "-----BEGIN PRIVATE KEY-----", "http://a:", "bearer ", "MNOMNOMNO-_", "--token ", "-eyJ", "eyJaaaaaaaa.", "SG.", "x-eyJ0."]) {
    const begun = performance.now();
    secrets(unit.repeat(Math.ceil(400_000 / unit.length)));
    // Far beyond what it takes, and far below what something that grows with the square would.
    assert.ok(performance.now() - begun < 5000, unit);
  }
});

test("a way is shown with what was said about it, and nothing of other ways", () => {
  // 5 and 6 are another branch, 7 says so, 12 is damage within the way, 3 a note within it.
  const way = path({ ranges: [[1, 2], [4, 4], [8, 11], [13, 14]], notes: [0, 3, 7, 15], damage: [{ n: 12 }] });
  assert.deepEqual(order(way, none), [0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 14, 15]);
});

test("what was compacted is behind a line until it is opened, one compaction after the other", () => {
  const way = path({ ranges: [[1, 20]], notes: [0], compactions: [compaction(6, 4), compaction(12, 9), compaction(15, 14, true)] });
  assert.deepEqual(order(way, none), [foldOf(12), 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
  assert.deepEqual(order(way, new Set([12])).slice(0, 7), [foldOf(6), 4, 5, 6, 7, 8, foldOf(12)]);
  assert.deepEqual(order(way, new Set([12, 6])).slice(0, 6), [0, 1, 2, 3, foldOf(6), 4]);
  assert.deepEqual(order(path({ ranges: [[1, 5]], compactions: [compaction(4, null)] }), none), [foldOf(4), 4, 5]);
});

test("a record is found among lines of compactions", () => {
  const items = [foldOf(6), 4, 5, 6, foldOf(12), 9, 10, 12];
  for (const n of [4, 5, 6, 9, 10, 12]) assert.equal(items[find(items, n)] === n || items[find(items, n) + 1] === n, true, String(n));
  const many = Array.from({ length: 100_000 }, (_, n) => n);
  assert.equal(many[find(many, 77_777)], 77_777);
});

test("what was said before and next is found, or where it is not known", () => {
  const items = [foldOf(3), 4, 5, 6, 7, 8];
  const known = { 4: true, 5: false, 6: false, 8: true };
  const is = (n) => known[n];
  assert.deepEqual(seek(items, 3, -1, is), { index: 1, isKnown: true });
  assert.deepEqual(seek(items, 3, 1, is), { index: 4, isKnown: false });
  assert.deepEqual(seek(items, 4, 1, is), { index: 5, isKnown: true });
  assert.equal(seek(items, 1, -1, is), null);
});

test("two ways part behind the last record that they share", () => {
  const sides = part(path({ ranges: [[1, 6]] }), path({ ranges: [[1, 3], [8, 9]] }));
  assert.deepEqual(sides, { shared: 3, left: [4, 5, 6], right: [8, 9] });
});

test("branches have lanes, and names stand where they lead", () => {
  const turn = (n, parent) => ({ n, parent, ms: null, words: "", before: null, end: n + 1, state: "done", errors: 0 });
  const rows = layOut({
    head: 9,
    current: "main",
    branches: [],
    labels: [{ name: "here", as: "checkpoint", to: 4, n: 5, ms: null }],
    compactions: [4],
    places: [{ n: 4, turn: 3 }, { n: 9, turn: 8 }],
    turns: [turn(1, null), turn(3, 1), turn(6, 1), turn(8, 6)],
    more: false,
  });
  assert.deepEqual(rows.map((row) => [row.lane, row.parent, row.isOnPath]), [[0, null, true], [0, 0, false], [1, 0, true], [1, 2, true]]);
  assert.deepEqual(rows.map((row) => row.names.map((one) => one.kind).join()), ["", "checkpoint,compaction", "", "head"]);
});

test("a lane that ended is taken again, and no line is drawn through another", () => {
  const turn = (n, parent) => ({ n, parent, ms: null, words: "", before: null, end: n, state: "done", errors: 0 });
  const lanes = (turns) => layOut({ head: null, current: null, branches: [], labels: [], compactions: [], places: [], turns, more: false }).map((row) => row.lane);
  // Each turn is tried twice: the second try goes on, and the first ends where it began.
  const tries = Array.from({ length: 20 }, (_, at) => [turn(2 * at + 1, at === 0 ? null : 2 * at), turn(2 * at + 2, at === 0 ? null : 2 * at)]).flat();
  assert.equal(Math.max(...lanes(tries)), 1);
  // A branch from the first turn that begins last has a line along all the others.
  assert.deepEqual(lanes([turn(1, null), turn(2, 1), turn(3, 1), turn(4, 2), turn(5, 1)]), [0, 0, 1, 0, 2]);
  // One from a turn behind the end of another lane has that lane.
  assert.deepEqual(lanes([turn(1, null), turn(2, 1), turn(3, 1), turn(4, 2), turn(5, 4), turn(6, 4)]), [0, 0, 1, 0, 0, 1]);
});

test("a scale ends with a round number", () => {
  assert.deepEqual([0, 0.003, 1, 3, 4950, 90_500].map(roof), [1, 0.004, 1, 4, 5000, 100_000]);
});

test("bars add up, and small names are put together", () => {
  const row = (day, model, input) => ({ day, model, turns: 1, calls: 1, tools: 0, input, output: 0, cache_write: 0, cache_read: 0 });
  const rows = Array.from({ length: 10 }, (_, index) => row("2026-01-01", `m${index}`, 10 - index)).concat(row("2026-01-02", "m9", 5));
  const drawn = bars(rows, "model", ["2026-01-01", "2026-01-02", "2026-01-03"], (one) => one.input);
  assert.equal(drawn.names.length, 9);
  assert.deepEqual(drawn.bars.map((bar) => bar.total), [55, 5, 0]);
});

test("a text is cut where nothing reaches over, and loses nothing", () => {
  const text = "# a\n\nb\n\n- one\n\n  still\n\n- two\n\n```\ncode\n\nmore\n```\n\nend\n";
  assert.equal(pieces(text).join(""), text);
  assert.deepEqual(pieces(text).map((piece) => piece.trim().split("\n")[0]), ["# a", "b", "```", "end"]);
  assert.deepEqual(pieces(""), []);
});

test("secrets that reach over blank lines are hidden before a text is cut", () => {
  const body = "lQOYBGa1B2cBCAC3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0";
  const all = [
    `-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n${body}\n${body}\n-----END PGP PRIVATE KEY BLOCK-----`,
    `-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF\n\n${body}\n\n${body}\n-----END RSA PRIVATE KEY-----`,
    `Password:\n\n${body}`,
  ];
  for (const text of all) {
    const { all: found, secrets: hidden } = cut(`Here it is:\n\n${text}\n\nThat is all.`);
    assert.ok(found.length > 1, "it is cut");
    assert.deepEqual(found.filter((piece) => piece.includes(body.slice(4, 20))), [], text);
    assert.ok(reveal({ text: found.join(""), secrets: hidden }).includes(text), "and it can be shown");
  }
});

test("a call is shown with its own line breaks, and with all that it is given", () => {
  assert.deepEqual(given({ command: "ls\nrm x" }), [{ text: "ls\nrm x", language: "bash" }]);
  assert.deepEqual(given({ path: "a", content: "one\ntwo", command: "x" }), [
    { text: "one\ntwo", language: "", title: "content" },
    { text: "x", language: "bash" },
    { text: '{\n  "path": "a"\n}', language: "json" },
  ]);
  for (const odd of [null, undefined, 5, "text", [1], {}]) assert.equal(given(odd).length, 1);
});

test("no cut goes through a secret, or parts it from the words that tell it for one", () => {
  const secret = "token=abc123def456ghi789";
  const text = "x ".repeat(100) + secret + " y".repeat(100);
  for (let wanted = 190; wanted < 240; wanted++) {
    const end = cutAt(text, 0, wanted);
    const inside = end > 200 && end < 224;
    assert.ok(!inside && end > 0, `${wanted} ${end}`);
  }
  const key = `-----BEGIN PRIVATE KEY-----\n${"a1B2c3D4e5F6g7H8\n".repeat(2000)}-----END PRIVATE KEY-----`;
  assert.equal(cutAt(`x ${key} y`, 0, 6000), 2);
  assert.equal(cutAt(`${key} y`, 0, 6000), key.indexOf("-----END"));
  assert.equal(cutAt("sk-ant-aaaaaaaaaaaaaaaaaaaa rest of it", 0, 10), 27);
  assert.equal(cutAt(text, 0, 9999), text.length);
});

test("links lead to three kinds of places, or nowhere", () => {
  for (const good of ["https://example.org/a?b#c", "http://localhost:1", "mailto:a@b.c", "HTTPS://EXAMPLE.ORG"]) assert.ok(target(good), good);
  for (const bad of ["javascript:alert(1)", "JaVaScRiPt:alert(1)", " javascript:alert(1)", "java\nscript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "//example.org", "/v1/sessions", "blob:x", ""]) {
    assert.equal(target(bad), undefined, bad);
  }
});

test("what cannot be seen is named", () => {
  assert.equal(visible("a\u202Eb\u001B[31m\u0000\u0085"), "a‹202E›b␛[31m␀‹0085›");
  assert.equal(visible("\u202E\u2066".repeat(50)), "‹100 characters that cannot be seen: ‹202E› ‹2066››");
  assert.equal(visible("x\r\ny\u2028z\t👩‍👩‍👧 שלום"), "x\ny\nz\t👩‍👩‍👧 שלום");
});

test("what hides is named, and what writing needs is not", () => {
  assert.equal(visible("a\u{E0041}b\u061Cc\u00ADd\u3164e\u180E"), "a‹E0041›b‹061C›c‹00AD›d‹3164›e‹180E›");
  for (const sound of ["🏴\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}", "葛\u{E0100}", "❤\uFE0F", "می\u200Cخواهم"]) assert.equal(visible(sound), sound);
});

test("writing tells its language", () => {
  assert.deepEqual(["記憶は残る", "기억은 남는다", "记忆会留下", "memory"].map(language), ["ja", "ko", "zh", undefined]);
});

test("records of any shape say something", () => {
  assert.equal(said({ type: "user", message: { content: [{ type: "tool_result", tool_use_id: "t", content: "x" }] } }).kind, "result");
  assert.deepEqual(said({ type: "assistant", content: "hi" }).blocks, [{ kind: "text", text: "hi" }]);
  assert.equal(said({ type: "user", content: { sha256: "x", bytes: 5, preview: "p" } }).blocks[0].kind, "kept");
  for (const odd of [{}, { type: 5 }, { type: "user" }, { type: "assistant", content: [null, 5, [], { type: "image" }] }, { type: "tool_use" }, { type: "__proto__" }]) assert.ok(said(odd).kind);
});

test("numbers as people read them", () => {
  assert.deepEqual([money(null), money(0), money(0.001), money(1.5), money(1234)], ["–", "$0", "<$0.01", "$1.50", "$1,234"]);
  assert.deepEqual([duration(5), duration(1500), duration(75_000)], ["5 ms", "1.5 s", "1 min 15 s"]);
  assert.deepEqual([bytes(5), bytes(1500), bytes(5_000_000)], ["5 B", "1.5 kB", "5.0 MB"]);
  assert.deepEqual([ago(0, 10_000), ago(0, 300_000), ago(0, 7_200_000)], ["now", "5 min", "2 h"]);
});
