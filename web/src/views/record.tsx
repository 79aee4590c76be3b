// One record as a person reads it. What it is made of is for `said` to know.
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "../api";
import type { Compaction, Line } from "../api";
import { Input, Json } from "../code";
import { bytes, count, duration, when } from "../format";
import { Markdown } from "../markdown";
import { memo } from "../memo";
import { attempt, copy, done } from "../notice";
import { leave } from "../outbox";
import { go, href, route } from "../route";
import { type Block, number, output, said, text } from "../said";
import type { Talk } from "../talk";
import { Plain, Text, masked, visible } from "../text";
import { Icon, question } from "../ui";
import { draft } from "./prompt";

const inputLine = (input: unknown): string => {
  if (typeof input !== "object" || input === null) return input === undefined ? "" : String(input);
  const values = Object.values(input);
  const first = values.find((value) => typeof value === "string" && value.trim() !== "");
  const line = typeof first === "string" ? first : values.length > 0 ? JSON.stringify(input) : "";
  return (line.split("\n", 1)[0] ?? "").slice(0, 160);
};

const Picture = ({ source, about }: { source: string | null; about: string }) => {
  const [isLarge, enlarge] = useState(false);
  if (!source) return <p class="image">Image {visible(about)}</p>;
  return (
    <button type="button" class={`picture${isLarge ? " large" : ""}`} aria-label={isLarge ? "Smaller" : "Larger"} onClick={() => enlarge(!isLarge)}>
      <img src={source} alt={`An image that was sent (${about})`} loading="lazy" />
    </button>
  );
};

const Kept = ({ talk, n, block }: { talk: Talk; n: number; block: Extract<Block, { kind: "kept" }> }) => (
  <div class="kept">
    <Plain text={`${block.preview}…`} />
    <button type="button" class="more" onClick={() => void attempt(api.whole(talk.id, n).then((line) => line && talk.replace(line)))}>
      Load all of it ({bytes(block.bytes)})
    </button>
  </div>
);

const Thinking = ({ text: words }: { text: string }) => {
  const [isOpen, open] = useState(false);
  return (
    <details class="thinking" open={isOpen} onToggle={(event) => open(event.currentTarget.open)}>
      <summary>Thinking</summary>
      {isOpen && <Plain text={words} label="Thinking" first={20_000} />}
    </details>
  );
};

const Output = ({ talk, n, value }: { talk: Talk; n: number; value: unknown }) => (
  <>
    {output(value).map((block, index) => (
      <Part key={index} talk={talk} n={n} block={block} isPlain />
    ))}
  </>
);

/** A call with what came of it. */
const CallView = ({ talk, call, n }: { talk: Talk; call: Extract<Block, { kind: "call" }>; n: number }) => {
  void talk.version.value;
  const at = talk.resultOf(call.id);
  // Whoever followed a link to the call or to its result wants to see it.
  const linked = route.value.n;
  const isLinked = linked !== undefined && (linked === n || linked === at);
  const [isOpen, open] = useState(isLinked);
  useEffect(() => {
    if (isLinked) open(true);
  }, [isLinked]);
  const line = at === undefined ? undefined : talk.lines.get(at);
  const answer = line?.record ? said(line.record).blocks.find((block) => block.kind === "result" && block.id === call.id) : undefined;
  const result = answer?.kind === "result" ? answer : undefined;
  const isRunning = talk.calls.value.some((one) => one.id === call.id);
  const isAsked = talk.questions.value.some((one) => one.id === call.id);
  const denied = talk.permissionOf(call.id) === "denied";
  const status = isAsked
    ? "waits for you"
    : isRunning
      ? "running"
      : result?.repair
        ? "no result was saved"
        : denied
          ? "denied"
          : result?.isError
            ? "failed"
            : result
              ? "done"
              : call.interrupted
                ? "interrupted"
                : at === undefined
                  ? "no result yet"
                  : "done";
  const kind = status === "failed" || status === "denied" || status === "no result was saved" || status === "interrupted" ? "bad" : status === "done" ? "good" : "open";
  return (
    <details class={`call ${kind}`} data-testid="call" open={isOpen} onToggle={(event) => open(event.currentTarget.open)}>
      <summary>
        <span class="name">{visible(call.name).slice(0, 80)}</span>
        <span class="line">
          <Text text={inputLine(call.input)} />
        </span>
        <span class={`status ${kind}`} data-testid="status">
          {status}
          {result?.ms !== null && result?.ms !== undefined ? ` · ${duration(result.ms)}` : ""}
        </span>
      </summary>
      {isOpen && (
        <div class="inside">
          <h4>Input</h4>
          <Input value={call.input} />
          <h4>Output</h4>
          {result && at !== undefined ? <Output talk={talk} n={at} value={result.output} /> : <p class="hint">There is none{isRunning ? " yet" : ""}.</p>}
          {result?.repair && <p class="repair">This result was put in when the session was opened again: the real one was never saved.</p>}
          <p class="links">
            <a href={href({ view: "session", id: talk.id, n })}>call: record {n}</a>
            {at !== undefined && <a href={href({ view: "session", id: talk.id, n: at })}>result: record {at}</a>}
          </p>
        </div>
      )}
    </details>
  );
};

const Other = ({ type, value }: { type: string; value: unknown }) => {
  const [isOpen, open] = useState(false);
  return (
    <details class="other" open={isOpen} onToggle={(event) => open(event.currentTarget.open)}>
      <summary>{visible(type).slice(0, 60)}</summary>
      {isOpen && <Json value={value} />}
    </details>
  );
};

export const Part = ({ talk, n, block, isPlain = false }: { talk: Talk; n: number; block: Block; isPlain?: boolean }) => {
  switch (block.kind) {
    case "text":
      return block.text === "" ? null : isPlain ? <Plain text={block.text} label="Output" /> : <Markdown text={block.text} />;
    case "thinking":
      return <Thinking text={block.text} />;
    case "image":
      return <Picture source={block.source} about={block.about} />;
    case "call":
      return <CallView talk={talk} call={block} n={n} />;
    case "result":
      // Shown with its call, unless that is not here.
      return null;
    case "kept":
      return <Kept talk={talk} n={n} block={block} />;
    case "other":
      return <Other type={block.type} value={block.value} />;
  }
};

const Raw = ({ talk, n, close }: { talk: Talk; n: number; close: () => void }) => {
  const [line, setLine] = useState<string | null>(null);
  const [isAsked, ask] = useState(false);
  if (!isAsked) {
    ask(true);
    void attempt(api.raw(talk.id, n)).then((found) => setLine(found ?? ""));
  }
  return (
    <div class="raw" data-testid="raw">
      <header>
        <b>Record {n}, as it is in the file</b>
        <button type="button" onClick={() => line !== null && copy(line, "The record")}>
          Copy
        </button>
        <button type="button" onClick={close}>
          Close
        </button>
      </header>
      {line === null ? <p class="hint">Loading</p> : <Plain text={line} label={`Record ${n}`} first={20_000} />}
    </div>
  );
};

const words = (line: Line): string =>
  line.record
    ? said(line.record)
        .blocks.map((block) => (block.kind === "text" ? block.text : ""))
        .join("\n")
        .trim()
    : "";

/** Whether a record is words and nothing else. */
const isWords = (line: Line): boolean => line.record !== undefined && words(line) !== "" && said(line.record).blocks.every((block) => block.kind === "text");

/** What can be done from a record. */
const Actions = ({ talk, line, show }: { talk: Talk; line: Line; show: () => void }) => {
  const [isOpen, open] = useState(false);
  const [isLow, setLow] = useState(false);
  const [place, button] = [useRef<HTMLDivElement>(null), useRef<HTMLButtonElement>(null)];
  useEffect(() => {
    if (!isOpen) return;
    place.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const outside = (event: Event) => {
      if (!place.current?.contains(event.target as Node)) open(false);
    };
    addEventListener("pointerdown", outside);
    return () => removeEventListener("pointerdown", outside);
  }, [isOpen]);
  const toggle = () => {
    // Towards where there is more room.
    const frame = place.current?.closest(".records, .side")?.getBoundingClientRect();
    const at = button.current?.getBoundingClientRect();
    setLow(frame !== undefined && at !== undefined && at.bottom > (frame.top + frame.bottom) / 2);
    open(!isOpen);
  };
  const walk = (event: KeyboardEvent) => {
    const items = [...(place.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = items.findIndex((item) => item === document.activeElement);
    const steps: { [key: string]: number } = { ArrowDown: at + 1, ArrowUp: at - 1 + items.length, Home: 0, End: items.length - 1 };
    if (event.key === "Escape" || event.key === "Tab") {
      open(false);
      button.current?.focus();
    } else if (Object.hasOwn(steps, event.key)) {
      items[(steps[event.key] ?? 0) % items.length]?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const n = line.n;
  const record = line.record;
  const isStep = record !== undefined && (typeof record["parent"] === "number" || record["type"] === "user");
  const parent = number(record?.["parent"]);
  const isUser = record?.["type"] === "user";
  const act = (work: () => void) => () => {
    open(false);
    button.current?.focus();
    work();
  };
  const ask = (title: string, label: string, action: string, then: (name: string) => void) => {
    question.value = { title, label, action, then };
  };
  /** Goes back before what was said, and says it again, perhaps otherwise: what came of it the first time stays as a branch. */
  const again = async (how: "draft" | "say"): Promise<void> => {
    if (parent === null || !(await attempt(api.rewind(talk.id, parent)))) return;
    const [said, isHere] = [words(line), talk.at === null];
    if (how === "draft") draft(talk.id, said);
    else if (isHere) talk.send(said);
    else leave(talk.id, said);
    go({ view: "session", id: talk.id }, "replace");
  };
  const fork = async (at: number): Promise<void> => {
    const forked = await attempt(api.fork(talk.id, at));
    if (forked) {
      done("A new session begins there.");
      go({ view: "session", id: forked.id });
    }
  };
  return (
    <div class="record-actions" ref={place}>
      <button type="button" class="icon-button" aria-label={`Actions for record ${n}`} title="Actions" aria-haspopup="menu" aria-expanded={isOpen} data-testid="record-actions" ref={button} onClick={toggle}>
        <Icon name="more" />
      </button>
      {isOpen && (
        <div class={`menu${isLow ? " up" : ""}`} role="menu" aria-label={`Actions for record ${n}`} onKeyDown={walk}>
          <button role="menuitem" onClick={act(() => copy(`${location.origin}${location.pathname}${href({ view: "session", id: talk.id, n })}`, "A link to this record"))}>
            Copy link
          </button>
          <button role="menuitem" onClick={act(show)}>
            Raw record
          </button>
          {words(line) !== "" && (
            <button role="menuitem" onClick={act(() => copy(words(line), "The text"))}>
              Copy text
            </button>
          )}
          {isUser && parent !== null && isWords(line) && (
            <>
              <button role="menuitem" onClick={act(() => void again("say"))}>
                Ask again
              </button>
              <button role="menuitem" onClick={act(() => void again("draft"))}>
                Edit and ask again
              </button>
            </>
          )}
          {isUser && parent !== null && (
            <button role="menuitem" onClick={act(() => void fork(parent))}>
              Fork before this
            </button>
          )}
          {isStep && (
            <>
              <button role="menuitem" onClick={act(() => void fork(n))}>
                Fork after this
              </button>
              <button role="menuitem" onClick={act(() => void attempt(api.rewind(talk.id, n), "The conversation goes on from there.").then((moved) => moved && go({ view: "session", id: talk.id }, "replace")))}>
                Rewind to here
              </button>
              <button role="menuitem" onClick={act(() => ask("Branch from here", "Name of the branch", "Branch", (name) => void attempt(api.branch(talk.id, name, n), `The conversation is on “${name}” now.`).then((begun) => begun && go({ view: "session", id: talk.id }, "replace"))))}>
                Branch from here
              </button>
              <button role="menuitem" onClick={act(() => ask("Checkpoint here", "Name of the checkpoint", "Name it", (name) => void attempt(api.checkpoint(talk.id, name, n), `“${name}” stands here now.`)))}>
                Checkpoint here
              </button>
              {words(line) !== "" && (
                <button role="menuitem" onClick={act(() => void attempt(api.pin(talk.id, n, true), "Compactions keep these words from now on."))}>
                  Pin these words
                </button>
              )}
            </>
          )}
        </div>
      )}
    </div>
  );
};

const Frame = ({ talk, line, kind, name, children }: { talk: Talk; line: Line; kind: string; name: string; children: preact.ComponentChildren }) => {
  const [isRaw, show] = useState(false);
  const time = line.record ? said(line.record).time : null;
  return (
    <article class={`record ${kind}`} id={`r${line.n}`} data-testid="record" data-n={line.n} aria-label={`${name}, record ${line.n}`} tabIndex={-1}>
      <header>
        <b>{name}</b>
        <a class="number" href={href({ ...route.value, view: "session", id: talk.id, n: line.n })} title={`Link to record ${line.n}`}>
          {when(time) || `#${line.n}`}
        </a>
        <Actions talk={talk} line={line} show={() => show(true)} />
      </header>
      {children}
      {isRaw && <Raw talk={talk} n={line.n} close={() => show(false)} />}
    </article>
  );
};

/** A line between the others: what was done with the conversation. */
const Aside = ({ talk, line, children, kind = "" }: { talk: Talk; line: Line; children: preact.ComponentChildren; kind?: string }) => {
  const [isRaw, show] = useState(false);
  return (
    <div class={`aside ${kind}`} id={`r${line.n}`} data-testid="aside" data-n={line.n}>
      <span>{children}</span>
      <button type="button" aria-label={`Record ${line.n}, as it is in the file`} title={`Record ${line.n}, as it is in the file`} onClick={() => show(!isRaw)}>
        #{line.n}
      </button>
      {isRaw && <Raw talk={talk} n={line.n} close={() => show(false)} />}
    </div>
  );
};

const asideOf = (record: api.Rec): string => {
  switch (record["type"]) {
    case "head":
      return record["to"] === null ? "Rewound to the beginning" : `Went on from record ${number(record["to"]) ?? "?"}${record["branch"] ? ` on ${masked(text(record["branch"]))}` : ""} (${visible(text(record["reason"]))})`;
    case "label":
      return number(record["to"]) === null ? `Labelled “${masked(text(record["name"]))}”` : `${record["as"] === "branch" ? "Branch" : "Checkpoint"} “${masked(text(record["name"]))}” at record ${number(record["to"])}`;
    case "title":
      return `Titled “${masked(text(record["title"]))}”${record["by"] === "model" ? " by the model" : ""}`;
    case "expire":
      return record["after"] ? `Kept for ${visible(text(record["after"]))}` : "Kept as the settings say";
    case "file":
      return `${record["before"] === null ? "Made" : record["after"] === null ? "Removed" : "Changed"} the file ${masked(text(record["path"]))}`;
    default:
      return visible(text(record["type"]) || "a record").slice(0, 60);
  }
};

const usageOf = (record: api.Rec): string => {
  const usage = record["usage"] as { [name: string]: unknown } | undefined;
  if (!usage || typeof usage !== "object") return "";
  const sum = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"].reduce((total, name) => total + (number(usage[name]) ?? 0), 0);
  return ` · ${count(sum)} tokens in, ${count(number(usage["output_tokens"]) ?? 0)} out`;
};

const TURNS = new Map([
  ["done", "Answered"],
  ["aborted", "Aborted"],
  ["failed", "Failed"],
  ["interrupted", "Interrupted: the server stopped, and it goes on"],
  ["out_of_steps", "Out of steps"],
]);

/** Damage, where it happened. */
export const DamageView = ({ n, bytes: size, offset, message, isRead }: { n: number; bytes: number; offset: number; message: string; isRead: boolean }) => (
  <div class="aside damage" id={`r${n}`} data-testid="damage" data-n={n} role="note">
    <span>
      Damage: {isRead ? "what follows may not be what was written" : "something here cannot be read"}
      {message ? `: ${visible(message)}` : ""} ({count(size)} bytes at offset {count(offset)}). Everything around it is as it was; unforget doctor tells more.
    </span>
  </div>
);

export const RecordView = memo(({ talk, line, before }: { talk: Talk; line: Line; before: number | null; version: number }) => {
  const record = line.record ?? {};
  const it = said(record);
  const parted =
    it.parent !== null && before !== null && it.parent !== before && it.parent < line.n - 1 ? <div class="aside parting">A branch: goes on from record {it.parent}</div> : null;
  const inside = it.blocks.map((block, index) => <Part key={index} talk={talk} n={line.n} block={block} />);
  const cut = it.interrupted ? <p class="repair">The answer broke off here.</p> : null;
  switch (it.kind) {
    case "user":
      return (
        <>
          {parted}
          <Frame talk={talk} line={line} kind="user" name={record["by"] === "rule" ? "Said by a rule" : "You"}>
            {inside}
          </Frame>
        </>
      );
    case "assistant":
      if (it.blocks.every((block) => block.kind === "call")) return <div id={`r${line.n}`}>{inside}</div>;
      return (
        <>
          {parted}
          <Frame talk={talk} line={line} kind="assistant" name="Answer">
            {inside}
            {cut}
          </Frame>
        </>
      );
    case "call":
      return (
        <div id={`r${line.n}`} data-n={line.n}>
          {parted}
          {inside}
        </div>
      );
    case "result": {
      // With its call, if that was seen.
      const lonely = it.blocks.filter((block) => block.kind === "result" && talk.callOfResult(block.id) === undefined);
      if (lonely.length === 0) return <span id={`r${line.n}`} class="anchor" />;
      return (
        <Frame talk={talk} line={line} kind="result" name="Output of a tool">
          {lonely.map((block) => (block.kind === "result" ? <Output key={block.id} talk={talk} n={line.n} value={block.output} /> : null))}
          {record["repair"] === true && <p class="repair">This result was put in when the session was opened again: the real one was never saved.</p>}
        </Frame>
      );
    }
    case "compaction":
      return (
        <Aside talk={talk} line={line}>
          The conversation was compacted here
        </Aside>
      );
    case "turn": {
      const state = text(record["state"]);
      if (state === "running") return null;
      // An error that was written before it says why already.
      const error = before === null ? undefined : talk.lines.get(before)?.record;
      const reason = error?.["type"] === "error" && error["message"] === record["reason"] ? "" : text(record["reason"]);
      return (
        <Aside talk={talk} line={line} kind={`turn ${state === "done" ? "" : "bad"}`}>
          {TURNS.get(state) ?? visible(state).slice(0, 60)}
          {usageOf(record)}
          {reason ? ` · ${masked(reason).slice(0, 300)}` : ""}
        </Aside>
      );
    }
    case "error":
      return (
        <Frame talk={talk} line={line} kind="error" name="Error">
          <Plain text={text(record["message"])} label="Error" />
        </Frame>
      );
    case "session":
      return (
        <Aside talk={talk} line={line}>
          {record["repair"] === true ? "The header was written again" : "The session began"}
          {it.time === null ? "" : ` · ${when(it.time)}`}
        </Aside>
      );
    case "silent":
      return null;
    case "aside":
    case "other":
      return (
        <Aside talk={talk} line={line} kind={it.kind}>
          {asideOf(record)}
        </Aside>
      );
  }
});

/** The line of a compaction, in place of what it replaced. */
export const Fold = ({ talk, compaction }: { talk: Talk; compaction: Compaction }) => {
  const [isTold, tell] = useState(false);
  const isOpen = talk.opened.value.has(compaction.n);
  const line = talk.lines.get(compaction.n);
  void talk.version.value;
  const summary = line?.record ? text(line.record["summary"]) : "";
  return (
    <section class="fold" data-testid="compaction" aria-label="Compaction">
      <div class="line">
        <button type="button" aria-expanded={isOpen} onClick={() => talk.toggle(compaction.n)}>
          {isOpen ? "Fold what was compacted" : "Compacted: open the originals"}
        </button>
        <span>
          {compaction.before !== null && compaction.after !== null ? `${count(compaction.before)} → ${count(compaction.after)} tokens` : ""}
          {compaction.by === "rule" ? " · by a rule" : ""}
        </span>
        <button type="button" aria-expanded={isTold} onClick={() => tell(!isTold)}>
          Summary
        </button>
      </div>
      {isTold && (summary ? <Markdown text={summary} /> : <p class="hint">Loading</p>)}
    </section>
  );
};
