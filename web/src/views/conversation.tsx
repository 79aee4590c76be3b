// A conversation: its records, what is going on, and the box to go on with.
import { Component, type ComponentChildren, type RefObject } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import * as api from "../api";
import { Json } from "../code";
import { duration } from "../format";
import { paint } from "../found";
import * as list from "../list";
import { Markdown } from "../markdown";
import { attempt, wrong } from "../notice";
import { find, folded, isFold } from "../order";
import { go, href, type Panel, route } from "../route";
import { said } from "../said";
import { Talk, leave } from "../talk";
import { Plain, language, masked, unmasked, visible } from "../text";
import { IconButton, Spinner } from "../ui";
import { useFollowing, useVirtual } from "../virtual";
import { About } from "./about";
import { Compare } from "./compare";
import { ContextView } from "./context";
import { Prompt, draft } from "./prompt";
import { DamageView, Fold, RecordView } from "./record";
import { titleOf } from "./sessions";
import { TreeView } from "./tree";

const ESTIMATE = 64;

/** What is going on and is in no record yet. */
const Now = ({ talk }: { talk: Talk }) => {
  const growing = talk.growing.value;
  const running = talk.running.value;
  return (
    <div class="now" data-testid="now">
      {growing.map((one, index) =>
        one.text === "" ? null : one.kind === "thinking" ? (
          <details class="thinking" open key={index}>
            <summary>Thinking</summary>
            <Plain text={one.text.slice(-20_000)} label="Thinking" first={20_000} />
          </details>
        ) : one.kind === "input" ? (
          <p class="aside" key={index}>
            A call is being written: {one.text.length} characters
          </p>
        ) : (
          <article class="record assistant growing" key={index} aria-label="Answer, still coming" data-testid="growing">
            <header>
              <b>Answer</b>
            </header>
            {one.dropped > 0 && <p class="hint">The beginning is shown when the answer is whole.</p>}
            <Markdown text={one.text} isGrowing />
          </article>
        ),
      )}
      {talk.questions.value.map((call) => (
        <QuestionCard talk={talk} call={call} key={call.id} />
      ))}
      {talk.pending.value.map((one) => (
        <article class={`record user pending ${one.state}`} key={one.client_id} data-testid="pending" aria-label="Said, not in the transcript yet">
          <header>
            <b>You</b>
            <span class="number">{one.state === "sending" ? "sending" : one.state === "accepted" ? "waits for its turn" : "was not taken"}</span>
            {one.state === "sending" && talk.wire.standing.value !== "open" && (
              <button type="button" class="small" onClick={() => talk.drop(one.client_id)}>
                Do not send
              </button>
            )}
          </header>
          <Markdown text={one.text} />
          {one.state === "refused" && (
            <p class="repair">
              {visible(one.why ?? "")}{" "}
              <button
                type="button"
                onClick={() => {
                  talk.drop(one.client_id);
                  talk.send(one.text);
                }}
              >
                Send again
              </button>{" "}
              <button
                type="button"
                onClick={() => {
                  talk.drop(one.client_id);
                  draft(talk.id, one.text);
                }}
              >
                Edit
              </button>
            </p>
          )}
        </article>
      ))}
      {running && growing.length === 0 && talk.questions.value.length === 0 && (
        <p class="aside working" role="status">
          <span class="dots" aria-hidden="true" />
          {talk.calls.value.length > 0 ? `Running ${talk.calls.value.map((call) => visible(call.name).slice(0, 40)).join(", ")}` : visible(talk.notice.value ?? "Answering")}
          <Clock since={talk.calls.value[0]?.since ?? running.since} />
        </p>
      )}
      {talk.failed.value && (
        <div class="record error" role="alert" data-testid="failed">
          <p>{masked(talk.failed.value)}</p>
        </div>
      )}
      {!running && talk.pending.value.length === 0 && talk.isAtHead && <Retry talk={talk} />}
    </div>
  );
};

/** A way on for a turn that did not come to a good end. */
const Retry = ({ talk }: { talk: Talk }) => {
  void talk.version.value;
  const state = talk.failed.value ? "failed" : talk.interrupted.value ? "interrupted" : talk.lastEnd();
  if (state === null || state === "done") return null;
  return (
    <p class="aside bad">
      {state === "interrupted" ? "The last turn never came to its end." : state === "aborted" ? "It was aborted." : state === "out_of_steps" ? "It had no steps left." : "It failed."}
      <button type="button" data-testid="retry" onClick={() => talk.resume()}>
        {state === "failed" ? "Retry" : "Go on"}
      </button>
    </p>
  );
};

const Clock = ({ since }: { since: number }) => {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((times) => times + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  const ms = Date.now() - since;
  return <span class="clock">{ms < 1500 ? "" : ` ${duration(Math.floor(ms / 1000) * 1000)}`}</span>;
};

const QuestionCard = ({ talk, call }: { talk: Talk; call: { id: string; name: string; input: unknown } }) => {
  const reason = useRef<HTMLInputElement>(null);
  const [isSaid, say] = useState(false);
  const answer = (allow: boolean) => {
    say(true);
    talk.answer(call.id, allow, allow ? undefined : reason.current?.value.trim());
    // A connection that was lost meanwhile asks again.
    setTimeout(() => say(false), 3000);
  };
  return (
    <section class="question" aria-label={`May ${visible(call.name).slice(0, 80)} run?`} data-testid="question">
      <h3>May {visible(call.name).slice(0, 80)} run?</h3>
      <Json value={call.input} />
      <div class="actions">
        <input ref={reason} aria-label="Why not (optional)" placeholder="Why not (optional)" maxLength={500} />
        <button type="button" disabled={isSaid} onClick={() => answer(false)}>
          Deny
        </button>
        <button type="button" class="main" disabled={isSaid} onClick={() => answer(true)}>
          Allow
        </button>
      </div>
    </section>
  );
};

const STANDING = { connecting: "Connecting", open: "", lost: "The connection is lost; what was said is safe. Coming back", refused: "The server refuses the connection" } as const;

/** Shows which record somebody was led to, as soon as it is drawn. */
const light = (n: number, frames: number): void => {
  const element = document.getElementById(`r${n}`);
  // What is opened for it is drawn a moment later.
  if (element && (paint(element, list.words.value) || frames === 0)) {
    for (const other of document.querySelectorAll(".sought")) other.classList.remove("sought");
    element.classList.add("sought");
    element.focus({ preventScroll: true });
  } else if (frames > 0) {
    requestAnimationFrame(() => light(n, frames - 1));
  }
};

/** The end of a branch that a record is on; none if there is no such step. */
const tipBeyond = async (id: string, n: number): Promise<number | null> => {
  const { branches } = await api.tree(id);
  const beyond = branches.filter((branch) => branch.tip >= n).sort((a, b) => a.tip - b.tip);
  for (const { tip } of beyond.slice(0, 50)) {
    const { ranges } = await api.path(id, tip);
    if (ranges.some(([from, to]) => from <= n && n <= to)) return tip;
  }
  return null;
};

const byNumber = (damage: api.Path["damage"]): Map<number, api.Path["damage"]> => {
  const found = new Map<number, api.Path["damage"]>();
  for (const one of damage) found.set(one.n, [...(found.get(one.n) ?? []), one]);
  return found;
};

/** A record that cannot be drawn keeps no other from being drawn. */
class Careful extends Component<{ n: number; children: ComponentChildren }, { failed: boolean }> {
  override state = { failed: false };
  override componentDidCatch(): void {
    this.setState({ failed: true });
  }
  override render(): ComponentChildren {
    if (!this.state.failed) return this.props.children;
    return <p class="aside bad">Record {this.props.n} cannot be drawn.</p>;
  }
}

const Records = ({ talk }: { talk: Talk }) => {
  const items = talk.items.value;
  const version = talk.version.value;
  const shown = useVirtual({
    count: items.length,
    estimate: () => ESTIMATE,
    keyOf: (index) => items[index] ?? index,
    overscan: 10,
    stays: true,
  });
  const path = talk.path.value;
  const damage = useMemo(() => byNumber(path?.damage ?? []), [path?.damage]);
  const wanted = route.value.n;
  const [sought, seek] = useState<number | null>(null);
  const [isAtEnd, setAtEnd] = useState(true);
  const inside = useRef<HTMLDivElement>(null);
  // The end at first, or the record that somebody was led to.
  const following = useFollowing(shown.frame, inside, wanted === undefined);
  const seen = shown.items.map((item) => item.index);
  const [first, last] = [seen[0] ?? 0, seen[seen.length - 1] ?? 0];

  useEffect(() => {
    const near = items.slice(Math.max(0, first - 40), last + 60);
    talk.ensure(near);
  }, [first, last, items, version]);

  useEffect(() => {
    if (wanted === undefined || items.length === 0 || sought === wanted) return;
    following.leave();
    if (talk.reveal(wanted)) {
      seek(wanted);
      const index = find(talk.items.value, wanted);
      requestAnimationFrame(() => shown.list.scrollToIndex(index, { align: "center" }));
    } else if (talk.at === null) {
      // It is on another branch: look at that one.
      void attempt(tipBeyond(talk.id, wanted)).then((at) => {
        if (at === undefined || route.value.id !== talk.id || route.value.n !== wanted) return;
        if (at !== null) return go({ ...route.value, at }, "replace");
        const { n: _, ...rest } = route.value;
        go(rest, "replace");
        wrong(new Error(`Record ${wanted} is no step of this conversation.`));
      });
    }
  }, [wanted, items.length === 0, talk]);

  // A result is shown with its call, which may be known only now.
  useEffect(() => {
    if (sought === null) return;
    const line = talk.lines.get(sought);
    if (!line?.record) return;
    const result = said(line.record).blocks.find((block) => block.kind === "result");
    const call = result?.kind === "result" ? talk.callOfResult(result.id) : undefined;
    const index = find(talk.items.value, call ?? sought);
    shown.list.scrollToIndex(index, { align: "center" });
    light(call ?? sought, 60);
    seek(null);
  }, [sought, version]);

  useEffect(() => {
    const jump = (event: Event) => {
      const where = (event as CustomEvent<unknown>).detail;
      if (where === "end") return following.toEnd();
      following.leave();
      if (where === "start") shown.list.scrollToIndex(0, { align: "start" });
      else {
        // The next or the last thing that the user said, as far as it is known here.
        const middle = find(items, items[first] ?? 0) + (shown.items.length >> 1);
        const by = where === "next" ? 1 : -1;
        for (let index = middle + by; index >= 0 && index < items.length; index += by) {
          const line = talk.lines.get(items[index] ?? -1);
          if (line?.record?.["type"] === "user") {
            shown.list.scrollToIndex(index, { align: "center" });
            return;
          }
        }
      }
    };
    addEventListener("jump", jump);
    return () => removeEventListener("jump", jump);
  });

  // Whoever says something wants to see it.
  const waiting = talk.pending.value.length;
  const waited = useRef(waiting);
  useEffect(() => {
    if (waiting > waited.current) following.toEnd();
    waited.current = waiting;
  }, [waiting]);

  return (
    <div
      class="records"
      data-testid="records"
      ref={shown.frame as RefObject<HTMLDivElement | null>}
      tabIndex={0}
      role="log"
      aria-label="Conversation"
      aria-live="off"
      onScroll={(event) => {
        const frame = event.currentTarget;
        setAtEnd(frame.scrollHeight - frame.scrollTop - frame.clientHeight < 120);
      }}
    >
      <div ref={inside}>
      <div class="height" style={{ height: `${shown.height}px` }}>
        {shown.items.map((item) => {
          const n = items[item.index];
          const line = n === undefined || isFold(n) ? undefined : talk.lines.get(n);
          const fold = n !== undefined && isFold(n) ? talk.path.value?.compactions.find((one) => one.n === folded(n)) : undefined;
          const harmed = n === undefined ? undefined : damage.get(n);
          const before = item.index > 0 ? (items[item.index - 1] ?? null) : null;
          return (
            <div key={item.key} class="item" data-index={item.index} ref={shown.measure} style={{ transform: `translateY(${item.start}px)` }}>
              {fold ? (
                <Fold talk={talk} compaction={fold} />
              ) : (
                <Careful n={n ?? 0}>
                  {harmed?.map((one, index) => <DamageView key={index} {...one} isRead={line?.record !== undefined} />)}
                  {line?.damage && !harmed && <DamageView n={line.n} {...line.damage} message="" isRead={false} />}
                  {line?.record ? (
                    <RecordView talk={talk} line={line} before={before !== null && isFold(before) ? null : before} version={version} />
                  ) : (
                    !harmed && !line && <div class="unread" aria-hidden="true" />
                  )}
                </Careful>
              )}
            </div>
          );
        })}
      </div>
      {/* What is shown here when an answer is whole is something else, and not the same thing moved. */}
      <div class="item still" key={talk.growing.value.length > 0 ? "growing" : "quiet"}>
        <Now talk={talk} />
      </div>
      </div>
      {!isAtEnd && (
        <button type="button" class="to-end" title="To the end (End)" onClick={following.toEnd}>
          To the end
        </button>
      )}
    </div>
  );
};

const toggle = (panel: Panel) => {
  const { panel: before, with: _, ...rest } = route.value;
  go(before === panel ? rest : { ...rest, panel }, "replace");
};

const Gone = ({ id, again }: { id: string; again: () => void }) => (
  <main class="nothing" aria-label="Nothing here">
    <p>This session is not here, or not yours. It may be in the trash.</p>
    <button
      type="button"
      onClick={() =>
        void attempt(api.undelete(id), "It is back.").then((row) => {
          if (!row) return;
          void list.reload();
          again();
        })
      }
    >
      Take it out of the trash
    </button>
    <a href="#/">All sessions</a>
  </main>
);

export const Conversation = ({ id, at }: { id: string; at: number | undefined }) => {
  const [round, setRound] = useState(0);
  const talk = useMemo(() => new Talk(id, at ?? null), [id, at, round]);
  useEffect(() => () => talk.close(), [talk]);
  const { panel } = route.value;
  const meta = talk.meta.value;
  const title = titleOf(meta);
  useEffect(() => {
    document.title = `${meta ? title : "unforget"} · unforget`;
  }, [title, meta === null]);
  const standing = talk.wire.standing.value;
  const isRunning = talk.running.value !== null;
  if (talk.phase.value === "gone") return <Gone id={id} again={() => setRound(round + 1)} />;
  if (talk.phase.value === "refused") {
    return (
      <main class="nothing" aria-label="Nothing here">
        <p role="alert">{visible(talk.why.value)}</p>
        <a href={href({ view: "session", id })}>The conversation itself</a>
      </main>
    );
  }
  return (
    <main class="conversation" aria-label="Conversation">
      <header class="top">
        <a class="icon-button only-narrow" href="#/" aria-label="All sessions">
          <svg class="icon" viewBox="0 0 24 24" width="18" height="18" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">
            <path d="M15 5l-7 7 7 7" />
          </svg>
        </a>
        <h1 dir="auto" lang={language(title)} title={title}>
          {meta ? title : "…"}
        </h1>
        <IconButton icon="eye" label={unmasked.value ? "Hide secrets" : "Show secrets"} pressed={unmasked.value} onClick={() => (unmasked.value = !unmasked.value)} />
        <IconButton icon="tree" label="Branches" keys="t" pressed={panel === "tree"} testid="open-tree" onClick={() => toggle("tree")} />
        <IconButton icon="gauge" label="Context" keys="c" pressed={panel === "context"} testid="open-context" onClick={() => toggle("context")} />
        <IconButton icon="more" label="About this session" keys="a" pressed={panel === "about"} testid="open-about" onClick={() => toggle("about")} />
      </header>
      {standing !== "open" && talk.phase.value === "here" && (
        <p class={`standing ${standing}`} role="status" data-testid="standing">
          {STANDING[standing]}
          {standing !== "refused" && <span class="dots" aria-hidden="true" />}
        </p>
      )}
      <p class="unseen" role="status" aria-live="polite">
        {visible(talk.told.value)}
      </p>
      <div class="middle">
        <div class="talk">
          {panel === "compare" && route.value.with !== undefined ? (
            <Compare talk={talk} other={route.value.with} />
          ) : talk.phase.value === "loading" ? (
            <Spinner label="Loading" />
          ) : (
            <Records talk={talk} key={`${id}:${at ?? ""}:${round}`} />
          )}
          {talk.phase.value === "here" && !talk.isAtHead && (
            <div class="looking" role="status">
              <span>You are looking at another branch, up to record {talk.at}.</span>
              <button type="button" onClick={() => void attempt(api.rewind(id, talk.at ?? 0), "The conversation goes on from there.").then((moved) => moved && go({ view: "session", id }, "replace"))}>
                Go on from here
              </button>
              <button type="button" onClick={() => void attempt(api.fork(id, talk.at)).then((forked) => forked && go({ view: "session", id: forked.id }))}>
                Fork from here
              </button>
              <a href={href({ view: "session", id })}>Back to where it goes on</a>
            </div>
          )}
          {talk.phase.value === "here" && talk.isAtHead && <Prompt name={id} isRunning={isRunning} hint="Say something" send={(words) => talk.send(words)} abort={() => talk.abort()} />}
        </div>
        {panel === "tree" && <TreeView talk={talk} close={() => toggle("tree")} />}
        {panel === "context" && <ContextView talk={talk} close={() => toggle("context")} />}
        {panel === "about" && <About talk={talk} close={() => toggle("about")} />}
      </div>
    </main>
  );
};

/** A conversation that begins with its first words. */
export const Beginning = ({ agents, usual }: { agents: api.Agent[]; usual: string }) => {
  const [agent, choose] = useState(usual);
  const [isBusy, setBusy] = useState(false);
  const begin = async (words: string) => {
    setBusy(true);
    const session = await attempt(api.begin(agent));
    setBusy(false);
    if (!session) return draft("new", words);
    if (!leave(session.id, words)) draft(session.id, words);
    go({ view: "session", id: session.id }, "replace");
    void list.reload();
  };
  useEffect(() => document.getElementById("prompt")?.focus(), []);
  return (
    <main class="conversation" aria-label="New conversation">
      <header class="top">
        <a class="icon-button only-narrow" href="#/" aria-label="All sessions">
          <svg class="icon" viewBox="0 0 24 24" width="18" height="18" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">
            <path d="M15 5l-7 7 7 7" />
          </svg>
        </a>
        <h1>New conversation</h1>
      </header>
      <div class="middle">
        <div class="talk">
          <div class="nothing">
            <p>It is kept from the first word on.</p>
            {agents.length > 1 && (
              <label>
                Who answers{" "}
                <select value={agent} onChange={(event) => choose(event.currentTarget.value)}>
                  {agents.map(({ name, kind }) => (
                    <option value={name} key={name}>
                      {name} ({kind})
                    </option>
                  ))}
                </select>
              </label>
            )}
          </div>
          <Prompt name="new" isRunning={isBusy} hint="Say something" send={(words) => void begin(words)} abort={() => undefined} />
        </div>
      </div>
    </main>
  );
};
