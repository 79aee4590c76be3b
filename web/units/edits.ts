// The table of edits that every front end runs (`crates/unforget/tests/it/edits.rs`): what the page's client sends for each, and that it
// passes on why one is refused. The test in Rust sends the same requests to the server.
// @ts-nocheck: Node's own modules have no types here; what is tested has.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as api from "../src/api";
import table from "./edits.json";

const id = "a session";

/** Asks the client for something; what it sent, and what came of it if the server answers so. */
const sent = async ([name, ...given], status, answer) => {
  const requests = [];
  const real = globalThis.fetch;
  globalThis.fetch = async (where, init) => {
    requests.push([init.method, where, JSON.parse(init.body), init.headers["x-unforget-page"]]);
    return new Response(JSON.stringify(answer), { status });
  };
  try {
    const came = await api[name](id, ...given).catch((problem) => problem);
    return { requests, came };
  } finally {
    globalThis.fetch = real;
  }
};

test("the client sends the requests of the table, and each once", async () => {
  const rows = table.filter(({ page }) => page);
  assert.ok(rows.length > 15, `${rows.length} rows`);
  for (const { page, request: [method, rest, body] } of rows) {
    const { requests, came } = await sent(page, 200, { n: 7 });
    assert.deepEqual(requests, [[method, `/v1/sessions/a%20session${rest}`, body, "1"]], JSON.stringify(page));
    assert.deepEqual(came, { n: 7 });
  }
});

test("the client passes on why an edit is refused", async () => {
  for (const { page } of table.filter(({ page }) => page)) {
    const { came } = await sent(page, 409, { error: { code: "conflict", message: "no, because" } });
    assert.ok(came instanceof api.Problem);
    assert.deepEqual([came.status, came.code, came.message], [409, "conflict", "no, because"]);
  }
});
