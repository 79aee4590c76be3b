// What is asked of the server over HTTP. The token is nowhere here: the browser keeps it in a cookie that scripts cannot read,
// and the header below says that this page asks, which no other page can say.

import type { Answer, Body, OneOf, Operation, Query, Schemas } from "./operations";

export type Session = Schemas["Session"];
export type SessionQuery = Query<Operation<"GET", "/sessions">>;
export type Hit = Schemas["Hit"];
export type Agent = Schemas["Agent"];
export type Me = Schemas["Me"];
export type Line = OneOf<Schemas["Line"]>;
/** A record of a transcript. Nothing in it is believed to be of any shape. */
export type Rec = Schemas["RecordLine"]["record"];
export type Compaction = Schemas["Compaction"];
export type Path = Schemas["Way"];
export type Turn = Schemas["Turn"];
export type Tree = Schemas["Tree"];
export type Context = Schemas["Context"];
export type UsageRow = Schemas["UsageRow"];
export type Usage = Schemas["Usage"];

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

const address = <M extends string, P extends string>(path: P, query: Query<Operation<M, P>> = {} as never): string => {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query as object)) {
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
    const { error } = (await answer.json()) as { error?: Partial<Schemas["Problem"]["error"]> };
    if (error) problem = new Problem(answer.status, error.code ?? "internal", error.message ?? problem.message);
  } catch {
    // No JSON: the number is all there is.
  }
  if (answer.status === 401) stranger();
  throw problem;
};

/** The document says what the operation takes and what it answers. */
const ask = async <M extends string, P extends string>(method: M, path: P, query?: Query<Operation<M, P>>, body?: Body<Operation<M, P>>, signal?: AbortSignal): Promise<Answer<Operation<M, P>>> => {
  const answer = await reach(method, address<M, P>(path, query), body, signal);
  return (answer.status === 204 ? undefined : await answer.json()) as Answer<Operation<M, P>>;
};

type Of = `/sessions/${string}`;
const of = (id: string): Of => `/sessions/${encodeURIComponent(id)}`;

export const me = (): Promise<Me> => ask("GET", "/me");
export const login = (token: string, stay: boolean): Promise<Schemas["LoggedIn"]> => ask("POST", "/login", {}, { token, stay });
/** Exchanges the code of a link, which works once, for the cookie. */
export const follow = (link: string): Promise<Schemas["LoggedIn"]> => ask("POST", "/login", {}, { link });
export const logout = (): Promise<void> => ask("POST", "/logout");

export const sessions = (query: SessionQuery, signal?: AbortSignal): Promise<Schemas["SessionPage"]> =>
  ask("GET", "/sessions", query, undefined, signal);
export const session = (id: string): Promise<Session> => ask("GET", of(id));
export const begin = (agent?: string): Promise<Session> => ask("POST", "/sessions", {}, agent ? { agent } : {});
export const describe = (id: string, what: Schemas["Description"]): Promise<Session> =>
  ask("PATCH", of(id), {}, what);
export const remove = (id: string): Promise<void> => ask("DELETE", of(id));
export const undelete = (id: string): Promise<Session> => ask("POST", `${of(id)}/undelete`);
export const search = (query: Query<Operation<"GET", "/search">>, signal?: AbortSignal): Promise<Schemas["Hits"]> =>
  ask("GET", "/search", query, undefined, signal);

export const records = (id: string, query: Query<Operation<"GET", `${Of}/records`>>, signal?: AbortSignal): Promise<{ records: Line[]; next: number | null }> =>
  ask("GET", `${of(id)}/records`, query, undefined, signal);
export const path = (id: string, at?: number | string | null): Promise<Path> => ask("GET", `${of(id)}/path`, { at });
export const tree = (id: string): Promise<Tree> => ask("GET", `${of(id)}/tree`);
export const context = (id: string): Promise<Context> => ask("GET", `${of(id)}/context`);
export const usage = (query: Query<Operation<"GET", "/usage">>): Promise<Usage> => ask("GET", "/usage", query);

export const fork = (id: string, at: number | string | null, label?: string): Promise<Schemas["Forked"]> =>
  ask("POST", `${of(id)}/fork`, {}, { at, ...(label ? { label } : {}) });
export const rewind = (id: string, to: number | string): Promise<Schemas["Rewound"]> => ask("POST", `${of(id)}/rewind`, {}, { to });
export const branch = (id: string, name: string, at?: number): Promise<Schemas["BegunBranch"]> =>
  ask("POST", `${of(id)}/branch`, {}, { name, ...(at === undefined ? {} : { at }) });
export const checkpoint = (id: string, name: string, at?: number): Promise<Schemas["Checkpointed"]> =>
  ask("POST", `${of(id)}/checkpoint`, {}, { name, ...(at === undefined ? {} : { at }) });
export const compact = (id: string): Promise<Schemas["Compacted"]> => ask("POST", `${of(id)}/compact`, {}, {});
export const pin = (id: string, n: number, pinned: boolean): Promise<Schemas["Pinned"]> => ask("POST", `${of(id)}/pin`, {}, { n, pinned });

/** A record as the bytes of the transcript say it. */
export const raw = async (id: string, n: number): Promise<string> => {
  const answer = await reach("GET", address<"GET", `${Of}/records`>(`${of(id)}/records`, { after: n > 0 ? n - 1 : undefined, limit: 1 }));
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
  const answer = await reach("GET", address<"GET", `${Of}/export`>(`${of(id)}/export`, { format, redact }));
  const named = /filename="([^"]+)"/.exec(answer.headers.get("content-disposition") ?? "")?.[1];
  const url = URL.createObjectURL(await answer.blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = named ?? `${id}.${format === "bundle" ? "unforget" : format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
};
