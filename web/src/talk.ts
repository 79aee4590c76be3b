// One conversation as the page has it: the way through it, the records that were needed so far, what is going on now, and what was said here and not
// acknowledged yet. Records are the truth; everything that is only sooner is let go when its record comes.
import { batch, signal } from "@preact/signals";
import * as api from "./api";
import type { Line, Path, Session } from "./api";
import { wrong } from "./notice";
import { folded, isFold, order, tip } from "./order";
import { type Pending, newId, store, stored } from "./outbox";
import { number, said, text } from "./said";
import { Wire, type Heard, type Spoken } from "./wire";

/** How many records are fetched at once, and how many are kept. */
const PAGE = 100;
const KEPT = 6000;
const KEPT_WEIGHT = 64 << 20;
/** The longest prompt that a server takes, unless it was told otherwise. */
const LONGEST = 1 << 20;
/** What a growing answer is shown of at the most, in characters. */
const GROWING = 200_000;
/** How often within a while it is looked why a connection was refused, and how long a refusal is given to come true: a session is let go before it is deleted. */
const LOOKS = 3;
const WHILE = 60_000;
const SOON = 500;

export interface Growing {
  kind: string;
  text: string;
  /** How many characters of its beginning are not kept, because its record will have them. */
  dropped: number;
}

export interface Call {
  id: string;
  name: string;
  input: unknown;
  since: number;
}

export type Phase = "loading" | "here" | "gone" | "refused";

const nothing: Path = { at: null, head: null, last: null, ranges: [], compactions: [], damage: [], notes: [] };

/** Conversations with words that no server has taken yet. */
const unsaid = new Set<Talk>();
addEventListener("beforeunload", (event) => {
  if (unsaid.size > 0) event.preventDefault();
});

/** About how much memory a value takes, without a look at everything. */
const weigh = (value: unknown, depth = 0): number => {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null || depth > 4) return 8;
  let sum = 16;
  for (const inner of Object.values(value)) sum += weigh(inner, depth + 1);
  return sum;
};

/** The number of the page; numbers of lines of compactions have none. */
const pageOf = (n: number): number => Math.floor(n / PAGE);

export class Talk {
  readonly phase = signal<Phase>("loading");
  readonly meta = signal<Session | null>(null);
  readonly path = signal<Path | null>(null);
  readonly items = signal<number[]>([]);
  /** Counts up when records came. */
  readonly version = signal(0);
  readonly opened = signal<ReadonlySet<number>>(new Set());
  readonly running = signal<{ client_id: string | null; since: number } | null>(null);
  readonly growing = signal<readonly Growing[]>([]);
  readonly calls = signal<readonly Call[]>([]);
  readonly questions = signal<readonly Call[]>([]);
  readonly pending = signal<readonly Pending[]>([]);
  readonly failed = signal<string | null>(null);
  readonly interrupted = signal(false);
  readonly notice = signal<string | null>(null);
  /** Why the conversation cannot be shown. */
  readonly why = signal("");
  /** What is told to whoever does not see it, and which time that is: the same words are told again. */
  readonly told = signal({ words: "", times: 0 });
  /** How many prompts wait for their turn, whoever said them. */
  readonly queued = signal(0);
  /** Counts up when branches, names or the head may be others. */
  readonly shape = signal(0);
  readonly wire: Wire;
  readonly lines = new Map<number, Line>();
  /** The step whose way is looked at; none for the head. */
  at: number | null;
  /** Where a call, its results and permissions are: on several branches, there are several. */
  private readonly results = new Map<string, number[]>();
  private readonly permissions = new Map<string, [number, string][]>();
  private readonly called = new Map<string, number>();
  /** The prompts of which the transcript has the words. */
  private readonly taken = new Set<string>();

  private last: number | null = null;
  private weight = 0;
  private readonly asked = new Set<number>();
  private readonly absent = new Set<number>();
  /** Pages that could not be fetched: how often, and when to try again. */
  private readonly failures = new Map<number, { times: number; until: number }>();
  private deltas = new Map<number, { kind: string; text: string }>();
  private frame = 0;
  private isOver = false;
  /** When it was looked why the connection was refused. */
  private looks: number[] = [];
  private isAttached = false;
  private isLoading = false;
  private isStale = false;
  private seen: readonly number[] = [];

  constructor(
    readonly id: string,
    at: number | null,
  ) {
    this.at = at;
    this.pending.value = stored(id);
    this.wire = new Wire({
      greet: () => this.greeting(),
      hear: (message) => this.hear(message),
      refuse: (why) => this.refuseAll(why),
      turnedAway: () => void this.look(),
    });
    this.count();
    void this.load(true);
  }

  /** Nobody looks any more. What was said and not taken yet is still said. */
  close(): void {
    this.isOver = true;
    cancelAnimationFrame(this.frame);
    if (!unsaid.has(this)) this.wire.close();
  }

  /** Whether anybody looks, or something is to be said still. */
  private get isWanted(): boolean {
    return !this.isOver || unsaid.has(this);
  }

  /** How many prompts wait that were not said here. */
  get waitingElsewhere(): number {
    return Math.max(0, this.queued.value - this.pending.value.filter((one) => one.state === "accepted").length);
  }

  /** The server does not want this connection: the session may have been deleted, and may have come back since. */
  private async look(): Promise<void> {
    const now = Date.now();
    this.looks = this.looks.filter((at) => now - at < WHILE);
    if (this.looks.length >= LOOKS) return;
    this.looks.push(now);
    await new Promise((resolve) => setTimeout(resolve, SOON * this.looks.length));
    if (!this.isWanted) return;
    try {
      await api.session(this.id);
    } catch (error) {
      const status = error instanceof api.Problem ? error.status : 0;
      if (status === 404) this.phase.value = "gone";
      // Without an answer, the wire goes on trying; whoever is refused here as well stays so.
      if (status >= 400 && status < 500) return;
    }
    this.wire.open();
  }

  /** Somebody wants it to be tried again. */
  tryAgain(): void {
    this.looks = [];
    this.wire.open();
  }

  /** Whether the conversation goes on where it is looked at. */
  get isAtHead(): boolean {
    return this.path.value !== null && this.at === null;
  }

  private greeting(): Spoken[] {
    this.isAttached = false;
    const attach: Spoken = { type: "attach", session_id: this.id, ...(this.last === null ? {} : { after: this.last }) };
    const again = this.pending.value.filter((one) => one.state !== "refused");
    return [attach, ...again.map((one): Spoken => ({ type: "prompt", session_id: this.id, prompt: one.text, client_id: one.client_id }))];
  }

  /** Reads the way anew, and what the list says of the session. One at a time: who comes meanwhile has it read once more. */
  async load(isFirst = false): Promise<void> {
    if (this.isLoading) {
      this.isStale = true;
      return;
    }
    this.isLoading = true;
    try {
      for (let times = 0; times < 20 && this.isWanted; times++) {
        this.isStale = false;
        const [path, meta] = await Promise.all([api.path(this.id, this.at), api.session(this.id)]);
        // An answer from before a record that is known already says less than what is here.
        if (this.last !== null && (path.last ?? -1) < this.last) this.isStale = true;
        else this.arrive(path, meta);
        if (!this.isStale) break;
        await new Promise((resolve) => setTimeout(resolve, 50 * times));
      }
    } catch (error) {
      this.cannot(error, isFirst);
      return;
    } finally {
      this.isLoading = false;
    }
    if (isFirst && this.isWanted) {
      this.last = this.path.value?.last ?? null;
      this.wire.open();
    }
  }

  private arrive(path: Path, meta: Session | null): void {
    batch(() => {
      // Who looks at the head looks at whatever it becomes.
      if (this.at !== null && this.at === path.head) this.at = null;
      this.path.value = path;
      if (meta) this.meta.value = meta;
      this.arrange();
      this.phase.value = "here";
    });
  }

  private cannot(error: unknown, isFirst: boolean): void {
    if (!this.isWanted) return;
    const status = error instanceof api.Problem ? error.status : 0;
    if (!isFirst) {
      wrong(error);
    } else if (status === 404 && this.pending.value.length > 0) {
      // One that was begun and has no transcript before its first word.
      this.arrive(nothing, null);
      this.wire.open();
    } else if (status === 404) {
      this.phase.value = "gone";
    } else if (status >= 400 && status < 500 && status !== 401 && status !== 408 && status !== 429) {
      this.why.value = error instanceof Error ? error.message : "";
      this.phase.value = "refused";
    } else {
      setTimeout(() => this.isWanted && void this.load(true), 2000);
    }
  }

  async refreshMeta(): Promise<void> {
    try {
      this.meta.value = await api.session(this.id);
    } catch {
      // The list tells the next time.
    }
  }

  private arrange(): void {
    const path = this.path.value;
    if (path) this.items.value = order(path, this.opened.value);
  }

  toggle(compaction: number): void {
    const opened = new Set(this.opened.value);
    if (!opened.delete(compaction)) opened.add(compaction);
    this.opened.value = opened;
    this.arrange();
  }

  /** Opens whatever hides a record; says whether the way has it. */
  reveal(n: number): boolean {
    const path = this.path.value;
    if (!path) return false;
    const opened = new Set(this.opened.value);
    for (const compaction of path.compactions) {
      if (!compaction.undone && n < (compaction.first_kept ?? compaction.n)) opened.add(compaction.n);
    }
    if (opened.size !== this.opened.value.size) {
      this.opened.value = opened;
      this.arrange();
    }
    return this.items.value.includes(n);
  }

  /** Fetches the records of some items that are not here yet. */
  ensure(items: readonly number[]): void {
    this.seen = items;
    const pages = new Set<number>();
    for (const item of items) {
      const n = isFold(item) ? folded(item) : item;
      if (!this.lines.has(n) && !this.absent.has(n)) pages.add(pageOf(n));
    }
    for (const page of pages) {
      const failure = this.failures.get(page);
      if (!this.asked.has(page) && (!failure || failure.until <= Date.now())) void this.fetch(page);
    }
  }

  private async fetch(page: number): Promise<void> {
    this.asked.add(page);
    const [from, to] = [page * PAGE, page * PAGE + PAGE - 1];
    try {
      let after: number | undefined = from > 0 ? from - 1 : undefined;
      for (;;) {
        const found: { records: Line[]; next: number | null } = await api.records(this.id, { after, limit: PAGE });
        if (this.isOver) return;
        for (const line of found.records) if (!this.lines.has(line.n)) this.keep(line);
        const reached = found.records[found.records.length - 1]?.n ?? to;
        if (found.next === null || reached >= to) break;
        after = found.next;
      }
      for (let n = from; n <= to; n++) if (!this.lines.has(n)) this.absent.add(n);
      this.failures.delete(page);
      this.forget();
      this.version.value += 1;
    } catch (error) {
      if (this.isOver) return;
      const times = (this.failures.get(page)?.times ?? 0) + 1;
      const wait = Math.min(60_000, 1000 * 2 ** times);
      this.failures.set(page, { times, until: Date.now() + wait });
      if (times === 1 && error instanceof api.Problem && error.status !== 0) wrong(error);
      setTimeout(() => (this.version.value += 1), wait + 20);
    } finally {
      this.asked.delete(page);
    }
  }

  private keep(line: Line): void {
    this.absent.delete(line.n);
    this.weight += weigh(line.record) - weigh(this.lines.get(line.n)?.record);
    this.lines.set(line.n, line);
    const record = line.record;
    if (!record) return;
    const put = <T>(where: Map<string, T[]>, id: string, one: T, isSame: (other: T) => boolean): void => {
      const known = where.get(id);
      if (!known) where.set(id, [one]);
      else if (!known.some(isSame)) known.push(one);
    };
    if (record["type"] === "approval") {
      put(this.permissions, text(record["tool_use_id"]), [line.n, text(record["state"])], ([n]) => n === line.n);
      return;
    }
    if (record["type"] === "user" && typeof record["client_id"] === "string") this.taken.add(record["client_id"]);
    for (const block of said(record).blocks) {
      if (block.kind === "result" && block.id) put(this.results, block.id, line.n, (n) => n === line.n);
      if (block.kind === "call" && block.id) this.called.set(block.id, line.n);
    }
  }

  /** Whether the way that is looked at has a record. */
  private has(n: number): boolean {
    return this.path.value?.ranges.some(([from, to]) => from <= n && n <= to) ?? false;
  }

  /** The record of a call's result on this way. */
  resultOf(id: string): number | undefined {
    const all = this.results.get(id);
    return all?.findLast((n) => this.has(n)) ?? (this.compared ? all?.[all.length - 1] : undefined);
  }

  /** Whether records of other ways are shown, too. */
  compared = false;

  /** What was said to a call on this way: `allowed`, `denied`. */
  permissionOf(id: string): string | undefined {
    return this.permissions.get(id)?.findLast(([n]) => this.has(n))?.[1];
  }

  /** The record of a result's call, if it was seen. */
  callOfResult(id: string): number | undefined {
    return this.called.get(id);
  }

  /** Lets records go that are far from what is seen. */
  private forget(): void {
    if (this.lines.size <= KEPT && this.weight <= KEPT_WEIGHT) return;
    const near = this.seen.filter((item) => !isFold(item));
    const [low, high] = [(near[0] ?? 0) - 2 * PAGE, (near[near.length - 1] ?? 0) + 2 * PAGE];
    for (const [n, line] of this.lines) {
      if (this.lines.size <= KEPT / 2 && this.weight <= KEPT_WEIGHT / 2) break;
      if ((n >= low && n <= high) || (this.last !== null && n > this.last - PAGE)) continue;
      this.weight -= weigh(line.record);
      this.lines.delete(n);
    }
  }

  /** How the last turn ended, if it was the last thing that happened. */
  lastEnd(): string | null {
    const items = this.items.value;
    for (let at = items.length - 1; at >= Math.max(0, items.length - 12); at--) {
      const record = this.lines.get(items[at] ?? -1)?.record;
      if (!record) continue;
      if (record["type"] === "turn") return record["state"] === "running" ? null : text(record["state"]) || null;
      if (typeof record["parent"] === "number") return null;
    }
    return null;
  }

  /** Whether it is known what a record is, or that there is none. */
  isRead(n: number): boolean {
    return this.lines.has(n) || this.absent.has(n);
  }

  replace(line: Line): void {
    this.keep(line);
    this.version.value += 1;
  }

  send(words: string): void {
    const one: Pending = { client_id: newId(), text: words, state: "sending" };
    this.failed.value = null;
    this.interrupted.value = false;
    if (new Blob([words]).size > LONGEST) {
      this.setPending([...this.pending.value, { ...one, state: "refused", why: "This is too long: a prompt has at most 1 MiB." }]);
      return;
    }
    this.setPending([...this.pending.value, one]);
    this.wire.say({ type: "prompt", session_id: this.id, prompt: words, client_id: one.client_id });
  }

  drop(client_id: string): void {
    this.setPending(this.pending.value.filter((one) => one.client_id !== client_id));
  }

  abort(): void {
    this.wire.say({ type: "abort" });
  }

  resume(): void {
    this.failed.value = null;
    this.interrupted.value = false;
    this.wire.say({ type: "resume" });
  }

  answer(call: string, allow: boolean, reason?: string): void {
    this.wire.say({ type: "answer", call_id: call, allow, ...(reason ? { reason } : {}) });
  }

  private setPending(pending: readonly Pending[]): void {
    this.pending.value = pending;
    store(this.id, pending);
    this.count();
  }

  /** Whether there is something that would be lost with the page. */
  private count(): void {
    if (this.pending.value.some((one) => one.state === "sending")) unsaid.add(this);
    else if (unsaid.delete(this) && this.isOver) this.wire.close();
  }

  private refuseAll(why: string): void {
    for (const one of this.pending.value) if (one.state === "sending") this.mark(one.client_id, "refused", why);
  }

  private mark(client_id: string, state: Pending["state"], why?: string): boolean {
    if (!this.pending.value.some((one) => one.client_id === client_id)) return false;
    this.setPending(this.pending.value.map((one) => (one.client_id === client_id ? { ...one, state, ...(why ? { why } : {}) } : one)));
    return true;
  }

  private hear(message: Heard): void {
    if (!this.isWanted) return;
    batch(() => this.understand(message));
  }

  private understand(message: Heard): void {
    const client = "client_id" in message ? message.client_id : null;
    switch (message.type) {
      case "attached":
        this.isAttached = true;
        this.failed.value = null;
        this.queued.value = message.queued;
        this.calls.value = [];
        this.questions.value = [];
        this.settle();
        this.running.value = message.turn && { client_id: message.turn.client_id, since: Date.now() };
        this.interrupted.value = message.interrupted !== null;
        return;
      case "record":
        this.take({ n: message.n, record: message.record });
        return;
      case "damage":
        this.take({ n: message.n, damage: { offset: message.offset, bytes: message.bytes } });
        return;
      case "caught_up":
        this.wire.calm();
        return;
      case "accepted":
        if (message.state === "done" || message.state === "failed" || message.state === "known") this.drop(message.client_id);
        else this.mark(message.client_id, "accepted");
        return;
      case "queued":
        // So many are before it, the running one among them: as many wait, with it.
        this.queued.value = Math.max(1, message.position);
        return;
      case "started":
        // Whoever attaches is told again of the turn that runs.
        if (this.running.value === null || this.running.value.client_id !== client) this.queued.value = Math.max(0, this.queued.value - 1);
        this.running.value = { client_id: client, since: Date.now() };
        this.failed.value = this.notice.value = null;
        this.interrupted.value = false;
        return;
      case "answering":
        this.settle();
        return;
      case "delta":
        this.grow(message.block, message.kind, message.text);
        return;
      case "notice":
        this.notice.value = message.message;
        return;
      case "tool_started":
        this.calls.value = [...this.calls.value.filter((one) => one.id !== message.call_id), this.callOf(message)];
        return;
      case "tool_ended":
        this.calls.value = this.calls.value.filter((one) => one.id !== message.call_id);
        return;
      case "question":
        this.questions.value = [...this.questions.value.filter((one) => one.id !== message.call_id), this.callOf(message)];
        this.tell(`${message.name} asks whether it may run.`);
        return;
      case "answered":
        this.questions.value = this.questions.value.filter((one) => one.id !== message.call_id);
        return;
      case "done":
      case "failed":
        this.end(message, client);
        return;
      case "error":
        this.refuse(message, client);
        return;
      default:
        return;
    }
  }

  private callOf(message: Heard<"tool_started" | "question">): Call {
    return { id: message.call_id, name: message.name || "tool", input: message.input, since: Date.now() };
  }

  private tell(words: string): void {
    this.told.value = { words, times: this.told.value.times + 1 };
  }

  private end(message: Heard<"done" | "failed">, client: string | null): void {
    const why = message.type === "failed" ? message.error.message : "";
    const runs = this.running.value?.client_id ?? null;
    if (client !== null && runs !== null && client !== runs) {
      // The end of an older prompt, told again because that was sent again: what runs now goes on.
      if (message.type === "done" || this.taken.has(client)) this.drop(client);
      else this.mark(client, "refused", why);
      return;
    }
    this.running.value = null;
    this.calls.value = [];
    this.questions.value = [];
    this.notice.value = null;
    this.settle();
    if (message.type === "failed") {
      // Words that are in no transcript are not let go of.
      if (client && !this.taken.has(client) && this.mark(client, "refused", why)) return;
      this.failed.value = why || "The turn failed.";
      this.tell("The turn failed.");
    } else {
      this.tell("Answered.");
    }
    if (client) this.drop(client);
    void this.refreshMeta();
  }

  private refuse(message: Heard<"error">, client: string | null): void {
    const { code, message: why } = message.error;
    if (client !== null && this.mark(client, "refused", why)) return;
    if (code === "not_found" && this.isAttached) return;
    if (code === "not_found") this.phase.value = "gone";
    else wrong(new Error(why));
  }

  /** A line that was written since. */
  private take(line: Line): void {
    const isNew = this.last === null || line.n > this.last;
    this.keep(line);
    if (isNew) this.last = line.n;
    this.forget();
    this.version.value += 1;
    const record = line.record;
    const type = record ? text(record["type"]) : "damage";
    if (type === "assistant" || type === "tool_use") this.settle();
    // What failed before is not what failed last any more.
    if (isNew && (type === "user" || type === "turn" || type === "head")) this.failed.value = null;
    if (type === "user") {
      // Other programs' lines do not say which prompt they are.
      const client = record?.["client_id"] ?? this.running.value?.client_id;
      if (typeof client === "string") {
        this.taken.add(client);
        this.drop(client);
      }
    }
    if (type === "title" || type === "label" || type === "expire" || type === "pin") void this.refreshMeta();
    const path = this.path.value;
    if (!isNew || !path) return;
    const isMove = type === "head" || type === "compaction" || type === "undo";
    if (isMove || type === "label" || type === "user" || type === "turn") this.shape.value += 1;
    if (isMove || this.isLoading || path.ranges.length === 0) {
      void this.load();
      return;
    }
    if (this.isAtHead) this.extend(path, line);
  }

  /** The way goes on by a line, or something was said about it. */
  private extend(path: Path, line: Line): void {
    const record = line.record;
    const parent = record ? number(record["parent"]) : null;
    const items = this.items.value;
    const isKnown = items[items.length - 1] === line.n;
    if (parent !== null || (record && record["v"] === undefined)) {
      if (parent !== null && parent !== tip(path)) {
        void this.load();
        return;
      }
      const ranges = path.ranges.slice();
      const grown = ranges[ranges.length - 1];
      if (grown && grown[1] === line.n - 1) ranges[ranges.length - 1] = [grown[0], line.n];
      else ranges.push([line.n, line.n]);
      this.path.value = { ...path, ranges, head: line.n, last: line.n, at: line.n };
      if (!isKnown) this.items.value = [...items, line.n];
    } else {
      const notes = record ? [...path.notes, line.n] : path.notes;
      const damage = line.damage ? [...path.damage, { n: line.n, ...line.damage, kind: "damage", message: "" }] : path.damage;
      this.path.value = { ...path, notes, damage, last: line.n };
      if (items[items.length - 1] === line.n - 1) this.items.value = [...items, line.n];
    }
  }

  /** More of an answer; drawn once a frame. */
  private grow(block: number, kind: string, more: string): void {
    const before = this.deltas.get(block);
    this.deltas.set(block, { kind, text: (before?.text ?? "") + more });
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.frame = 0;
    const growing = this.growing.value.slice();
    for (const [block, { kind, text: more }] of [...this.deltas].sort((a, b) => a[0] - b[0])) {
      const before = growing[block] ?? { kind, text: "", dropped: 0 };
      const whole = before.text + more;
      const over = whole.length > 2 * GROWING ? whole.length - GROWING : 0;
      growing[block] = { kind, text: over ? whole.slice(over) : whole, dropped: before.dropped + over };
    }
    this.deltas = new Map();
    for (let index = 0; index < growing.length; index++) growing[index] ??= { kind: "text", text: "", dropped: 0 };
    this.growing.value = growing;
  }

  /** What was only sooner is let go. */
  private settle(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.deltas = new Map();
    if (this.growing.value.length > 0) this.growing.value = [];
  }
}
