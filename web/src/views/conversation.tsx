// A conversation: its records, what is going on, and the box to go on with.
import { Component, type ComponentChildren, type RefObject } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import * as api from "../api";
import { paint } from "../found";
import * as list from "../list";
import { attempt, wrong } from "../notice";
import { find, folded, isFold } from "../order";
import { leave } from "../outbox";
import { go, href, route, toggle } from "../route";
import { said } from "../said";
import { Talk } from "../talk";
import { language, unmasked, visible } from "../text";
import { IconButton, Spinner } from "../ui";
import { useFollowing, useVirtual } from "../virtual";
import { About } from "./about";
import { Compare } from "./compare";
import { ContextView } from "./context";
import { Now } from "./now";
import { Prompt, draft } from "./prompt";
import { DamageView, Fold, RecordView } from "./record";
import { titleOf } from "./sessions";
import { useSteps } from "./steps";
import { TreeView } from "./tree";

const ESTIMATE = 64;

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
  const steps = useSteps(talk, items, shown);
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
      steps.stop();
      if (where === "end") return following.toEnd();
      following.leave();
      if (where === "start") shown.list.scrollToIndex(0, { align: "start" });
      else steps.go(where === "next" ? 1 : -1);
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
    <div class="log">
      <div
        class="records"
        data-testid="records"
        ref={shown.frame as RefObject<HTMLDivElement | null>}
        tabIndex={0}
        role="log"
        aria-label="Conversation"
        aria-live="off"
        onWheel={steps.stop}
        onTouchMove={steps.stop}
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
      </div>
      {!isAtEnd && (
        <div class="to-end">
          <IconButton icon="down" label="To the end" keys="End" onClick={following.toEnd} />
        </div>
      )}
    </div>
  );
};

const Gone = ({ id, again }: { id: string; again: () => void }) => {
  // Somebody may bring it back elsewhere: then the list has it again.
  const isListed = list.rows.value.some((row) => row.id === id && row.state !== "deleted");
  const wasListed = useRef(isListed);
  useEffect(() => {
    if (isListed && !wasListed.current) again();
    wasListed.current = isListed;
  }, [isListed]);
  return (
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
      <button type="button" onClick={again}>
        Look again
      </button>
      <a href="#/">All sessions</a>
    </main>
  );
};

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
          {standing === "refused" ? (
            <>
              {". "}
              <button type="button" class="small" onClick={() => talk.tryAgain()}>
                Try again
              </button>
            </>
          ) : (
            <span class="dots" aria-hidden="true" />
          )}
        </p>
      )}
      <p class="unseen" role="status" aria-live="polite">
        <span key={talk.told.value.times}>{visible(talk.told.value.words)}</span>
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
