// What is asked of the server over HTTP. The token is nowhere here: the browser keeps it in a cookie that scripts cannot read,
// and the header below says that this page asks, which no other page can say.

export interface Session {
  id: string;
  key: string | null;
  label: string | null;
  title: string | null;
  created: string | null;
  updated: string | null;
  turns: number;
  records: number;
  tokens: number;
  cost_usd?: number | null;
  model: string | null;
  head: number | null;
  expires: string | null;
  pinned?: boolean;
  bytes: number;
  damage: number;
  state: "ok" | "missing" | "mismatch" | "unreadable" | "deleted";
  live: boolean;
  busy: boolean;
  viewers: number;
}

export interface Hit {
  session: string;
  key: string | null;
  title: string | null;
  n: number;
  at: string | null;
  role: string;
  tool: string | null;
  trashed: boolean;
  abandoned: boolean;
  snippet: string;
  marks: [number, number][];
}

export interface Agent {
  name: string;
  kind: string;
}

export interface Me {
  actor: string;
  needs_token: boolean;
  agents: Agent[];
  default: string;
  version: string;
}

/** A record of a transcript. Nothing in it is believed to be of any shape. */
export type Rec = { [member: string]: unknown };

export interface Line {
  n: number;
  record?: Rec;
  damage?: { offset: number; bytes: number };
}

export interface Compaction {
  n: number;
  first_kept: number | null;
  before: number | null;
  after: number | null;
  by: string | null;
  undone: boolean;
}

export interface Path {
  at: number | null;
  head: number | null;
  last: number | null;
  ranges: [number, number][];
  compactions: Compaction[];
  damage: { n: number; offset: number; bytes: number; kind: string; message: string }[];
  notes: number[];
}

export interface Branch {
  tip: number;
  from: number | null;
  first: number | null;
  names: string[];
  records: number;
  turns: number;
  last_ms: number | null;
  words: string | null;
  is_head: boolean;
}

export interface Label {
  name: string;
  as: "branch" | "checkpoint";
  to: number | null;
  n: number;
  ms: number | null;
}

export interface Turn {
  n: number;
  parent: number | null;
  ms: number | null;
  words: string;
  /** The step that it follows, and the last one of what came of it. */
  before: number | null;
  end: number;
  state: string | null;
  errors: number;
}

export interface Tree {
  head: number | null;
  current: string | null;
  branches: Branch[];
  labels: Label[];
  compactions: number[];
  turns: Turn[];
  /** Which turn the head, names and compactions belong to. */
  places: { n: number; turn: number }[];
  more: boolean;
}

export interface Context {
  model: string | null;
  window: number | null;
  limit: number | null;
  tokens: number;
  measured: number;
  estimated: number;
  provenance: string;
  messages: number;
  parts: { [part: string]: number };
  largest: { n: number; kind: string; tokens: number; name: string | null }[];
  repairs: { n: number | null; kind: string; message: string }[];
  pins?: { n: number; text: string }[];
}

export interface UsageRow {
  day?: string;
  model?: string;
  agent?: string;
  turns: number;
  calls: number;
  tools: number;
  input: number;
  output: number;
  cache_write: number;
  cache_read: number;
  cost_usd?: number | null;
}

export interface Usage {
  rows: UsageRow[];
  total: UsageRow;
  unpriced?: string[];
}

/** Why something was not done, in the server's words. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** Is called when the server does not know who is asking. */
let stranger: () => void = () => undefined;
export const onStranger = (tell: () => void): void => {
  stranger = tell;
};

type Query = { [name: string]: string | number | boolean | null | undefined };

const address = (path: string, query: Query = {}): string => {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return `/v1${path}${text ? `?${text}` : ""}`;
};

const reach = async (method: string, where: string, body?: unknown, signal?: AbortSignal): Promise<Response> => {
  const headers: Record<string, string> = { "x-unforget-page": "1" };
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    headers["content-type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  if (signal) init.signal = signal;
  let answer: Response;
  try {
    answer = await fetch(where, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "offline", "The server does not answer.");
  }
  if (answer.ok) return answer;
  let problem = new Problem(answer.status, "internal", `The server answered ${answer.status}.`);
  try {
    const { error } = (await answer.json()) as { error?: { code?: string; message?: string } };
    if (error) problem = new Problem(answer.status, error.code ?? "internal", error.message ?? problem.message);
  } catch {
    // No JSON: the number is all there is.
  }
  if (answer.status === 401) stranger();
  throw problem;
};

const ask = async <T>(method: string, path: string, query?: Query, body?: unknown, signal?: AbortSignal): Promise<T> => {
  const answer = await reach(method, address(path, query), body, signal);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
};

const of = (id: string): string => `/sessions/${encodeURIComponent(id)}`;

export const me = (): Promise<Me> => ask("GET", "/me");
export const login = (token: string, stay: boolean): Promise<{ actor: string }> => ask("POST", "/login", {}, { token, stay });
/** Exchanges the code of a link, which works once, for the cookie. */
export const follow = (link: string): Promise<{ actor: string }> => ask("POST", "/login", {}, { link });
export const logout = (): Promise<void> => ask("POST", "/logout");

export const sessions = (query: Query, signal?: AbortSignal): Promise<{ sessions: Session[]; next: string | null }> =>
  ask("GET", "/sessions", query, undefined, signal);
export const session = (id: string): Promise<Session> => ask("GET", of(id));
export const begin = (agent?: string): Promise<Session> => ask("POST", "/sessions", {}, agent ? { agent } : {});
export const describe = (id: string, what: { title?: string; label?: string | null; expires?: string | null; pinned?: boolean }): Promise<Session> =>
  ask("PATCH", of(id), {}, what);
export const remove = (id: string): Promise<void> => ask("DELETE", of(id));
export const undelete = (id: string): Promise<Session> => ask("POST", `${of(id)}/undelete`);
export const search = (query: Query, signal?: AbortSignal): Promise<{ hits: Hit[]; more: boolean }> =>
  ask("GET", "/search", query, undefined, signal);

export const records = (id: string, query: Query, signal?: AbortSignal): Promise<{ records: Line[]; next: number | null }> =>
  ask("GET", `${of(id)}/records`, query, undefined, signal);
export const path = (id: string, at?: number | string | null): Promise<Path> => ask("GET", `${of(id)}/path`, { at });
export const tree = (id: string): Promise<Tree> => ask("GET", `${of(id)}/tree`);
export const context = (id: string): Promise<Context> => ask("GET", `${of(id)}/context`);
export const usage = (query: Query): Promise<Usage> => ask("GET", "/usage", query);

export const fork = (id: string, at: number | string | null, label?: string): Promise<{ id: string; key: string }> =>
  ask("POST", `${of(id)}/fork`, {}, { at, ...(label ? { label } : {}) });
export const rewind = (id: string, to: number | string): Promise<{ head: number }> => ask("POST", `${of(id)}/rewind`, {}, { to });
export const branch = (id: string, name: string, at?: number): Promise<{ name: string }> =>
  ask("POST", `${of(id)}/branch`, {}, { name, ...(at === undefined ? {} : { at }) });
export const checkpoint = (id: string, name: string, at?: number): Promise<{ name: string }> =>
  ask("POST", `${of(id)}/checkpoint`, {}, { name, ...(at === undefined ? {} : { at }) });
export const compact = (id: string): Promise<{ n: number }> => ask("POST", `${of(id)}/compact`, {}, {});
export const pin = (id: string, n: number, pinned: boolean): Promise<unknown> => ask("POST", `${of(id)}/pin`, {}, { n, pinned });

/** A record as the bytes of the transcript say it. */
export const raw = async (id: string, n: number): Promise<string> => {
  const answer = await reach("GET", address(`${of(id)}/records`, { after: n > 0 ? n - 1 : undefined, limit: 1 }));
  const text = await answer.text();
  const from = text.indexOf('"record":');
  const to = text.lastIndexOf('}],"next"');
  return from < 0 || to < from ? text : text.slice(from + '"record":'.length, to);
};

/** A record with the payloads that are kept beside the transcript. */
export const whole = async (id: string, n: number): Promise<Line | undefined> => {
  const { records: lines } = await records(id, { after: n > 0 ? n - 1 : undefined, limit: 1, payloads: true });
  return lines[0];
};

/** Hands a session to the browser as a file. */
export const download = async (id: string, format: "jsonl" | "json" | "bundle", redact: boolean): Promise<void> => {
  const answer = await reach("GET", address(`${of(id)}/export`, { format, redact }));
  const named = /filename="([^"]+)"/.exec(answer.headers.get("content-disposition") ?? "")?.[1];
  const url = URL.createObjectURL(await answer.blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = named ?? `${id}.${format === "bundle" ? "unforget" : format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
};
