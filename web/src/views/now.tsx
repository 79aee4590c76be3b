// What is going on at the end of a conversation and is in no record yet: an answer that comes, questions, words that wait, and a way on behind a turn that
// did not end well. On another branch none of it belongs to what stands above, so that only questions are asked there, and a line says where the rest is.
import { useEffect, useState } from "preact/hooks";
import { duration } from "../format";
import { Markdown } from "../markdown";
import type { Pending } from "../outbox";
import { href } from "../route";
import type { Talk } from "../talk";
import { Plain, masked, visible } from "../text";
import { draft } from "./prompt";
import { QuestionCard } from "./question";

export const Now = ({ talk }: { talk: Talk }) => {
  const running = talk.running.value;
  const asked = talk.questions.value.map((call) => <QuestionCard talk={talk} call={call} key={call.id} />);
  if (!talk.isAtHead) {
    return (
      <div class="now" data-testid="now">
        {asked}
        {running && (
          <p class="aside">
            An answer is coming <a href={href({ view: "session", id: talk.id })}>where it goes on</a>.
          </p>
        )}
      </div>
    );
  }
  const growing = talk.growing.value;
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
      {asked}
      {talk.pending.value.map((one) => (
        <Waiting talk={talk} one={one} key={one.client_id} />
      ))}
      {talk.waitingElsewhere > 0 && (
        <p class="aside" data-testid="elsewhere">
          {talk.waitingElsewhere === 1 ? "Something that was said elsewhere waits" : `${talk.waitingElsewhere} things that were said elsewhere wait`} for a turn.
        </p>
      )}
      {running && growing.length === 0 && talk.questions.value.length === 0 && (
        <p class="aside working" role="status">
          <span class="dots" aria-hidden="true" />
          {talk.calls.value.length > 0 ? `Running ${talk.calls.value.map((call) => visible(call.name).slice(0, 40)).join(", ")}` : visible(talk.notice.value ?? "Answering")}
          <Clock since={talk.calls.value[0]?.since ?? running.since} />
        </p>
      )}
      {!running && talk.pending.value.length === 0 && <Ending talk={talk} />}
    </div>
  );
};

/** Words that no transcript has yet. */
const Waiting = ({ talk, one }: { talk: Talk; one: Pending }) => (
  <article class={`record user pending ${one.state}`} data-testid="pending" aria-label="Said, not in the transcript yet">
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
);

const ENDS = new Map([
  ["interrupted", "The last turn never came to its end."],
  ["aborted", "It was aborted."],
  ["out_of_steps", "It had no steps left."],
]);

/** How a turn ended that did not come to a good end, and a way on. */
const Ending = ({ talk }: { talk: Talk }) => {
  void talk.version.value;
  const last = talk.lastEnd();
  const why = talk.failed.value;
  const state = why ? "failed" : talk.interrupted.value ? "interrupted" : last;
  if (state === null || state === "done") return null;
  const on = (
    <button type="button" data-testid="retry" onClick={() => talk.resume()}>
      {state === "failed" ? "Retry" : "Go on"}
    </button>
  );
  // Why it failed is told once: where the transcript says so, that is enough.
  if (why && last !== "failed") {
    return (
      <div class="record error" role="alert" data-testid="failed">
        <p>{masked(why)}</p>
        {on}
      </div>
    );
  }
  return (
    <p class="aside bad" {...(why ? { role: "alert", "data-testid": "failed" } : {})}>
      {ENDS.get(state) ?? "It failed."}
      {on}
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
