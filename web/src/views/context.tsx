// What fills the context window now.
import { useEffect, useState } from "preact/hooks";
import * as api from "../api";
import type { Context } from "../api";
import { count } from "../format";
import { attempt } from "../notice";
import { href } from "../route";
import type { Talk } from "../talk";
import { masked, visible } from "../text";
import { IconButton, Spinner } from "../ui";

const PARTS: [keyof Context["parts"], string][] = [
  ["system", "System prompt"],
  ["tools", "Tools"],
  ["summary", "Summaries"],
  ["user", "What you said"],
  ["assistant", "Answers"],
  ["thinking", "Thinking"],
  ["calls", "Calls"],
  ["results", "Results"],
  ["images", "Images"],
];

export const ContextView = ({ talk, close }: { talk: Talk; close: () => void }) => {
  const [context, setContext] = useState<Context | null>(null);
  const isRunning = talk.running.value !== null;
  useEffect(() => {
    let isOld = false;
    void attempt(api.context(talk.id)).then((found) => found && !isOld && setContext(found));
    return () => {
      isOld = true;
    };
  }, [talk, isRunning, talk.shape.value]);
  if (!context) {
    return (
      <aside class="panel" aria-label="Context">
        <Spinner label="Loading" />
      </aside>
    );
  }
  const whole = context.window ?? Math.max(1, context.tokens);
  const share = (tokens: number) => (100 * tokens) / whole;
  let at = 0;
  const bars = PARTS.map(([part, name]) => {
    const tokens = context.parts[part] ?? 0;
    const bar = { part, name, tokens, x: at, width: share(tokens) };
    at += bar.width;
    return bar;
  });
  return (
    <aside class="panel context" aria-label="Context" data-testid="context">
      <header>
        <h2>Context</h2>
        <IconButton icon="close" label="Close" onClick={close} />
      </header>
      <p class="big">
        {count(context.tokens)} tokens
        {context.window !== null && <small> of {count(context.window)}: {Math.round(share(context.tokens))} %</small>}
      </p>
      <p class="hint">
        {visible(context.model ?? "no model yet")} · {count(context.messages)} messages · {visible(context.provenance)}
      </p>
      <svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label={bars.map((bar) => `${bar.name} ${count(bar.tokens)}`).join(", ")}>
        <rect class="room" x="0" y="0" width="100" height="10" />
        {bars.map((bar) => (bar.width > 0 ? <rect key={bar.part} class={`part-${bar.part}`} x={bar.x} y="0" width={Math.max(0.2, bar.width)} height="10" /> : null))}
        {context.limit !== null && <path class="limit" d={`M${Math.min(99.8, share(context.limit))} 0v10`} />}
      </svg>
      <table>
        <thead>
          <tr>
            <th scope="col">Part</th>
            <th scope="col" class="align-right">
              Tokens
            </th>
            <th scope="col" class="align-right">
              Share
            </th>
          </tr>
        </thead>
        <tbody>
          {bars.map((bar) => (
            <tr key={bar.part}>
              <th scope="row">
                <i class={`dot part-${bar.part}`} /> {bar.name}
              </th>
              <td class="align-right">{count(bar.tokens)}</td>
              <td class="align-right">{context.tokens ? Math.round((100 * bar.tokens) / context.tokens) : 0} %</td>
            </tr>
          ))}
          {context.window !== null && (
            <tr>
              <th scope="row">
                <i class="dot room" /> Room
              </th>
              <td class="align-right">{count(Math.max(0, context.window - context.tokens))}</td>
              <td />
            </tr>
          )}
        </tbody>
      </table>
      {context.limit !== null && <p class="hint">Above {count(context.limit)} tokens the agent makes room by itself.</p>}
      <div class="actions">
        <button type="button" disabled={isRunning} onClick={() => void attempt(api.compact(talk.id), "The conversation was compacted.").then(() => attempt(api.context(talk.id)).then((found) => found && setContext(found)))}>
          Compact now
        </button>
      </div>
      {context.largest.length > 0 && (
        <>
          <h3>Largest</h3>
          <ul class="plain-list">
            {context.largest.map((one) => (
              <li key={one.n}>
                <a href={href({ view: "session", id: talk.id, panel: "context", n: one.n })}>
                  {visible(one.name ?? one.kind).slice(0, 60)}, record {one.n}
                </a>
                <span>{count(one.tokens)}</span>
              </li>
            ))}
          </ul>
        </>
      )}
      {(context.pins?.length ?? 0) > 0 && (
        <>
          <h3>Pinned</h3>
          <ul class="plain-list">
            {context.pins?.map((pin) => (
              <li key={pin.n}>
                <a href={href({ view: "session", id: talk.id, panel: "context", n: pin.n })}>{masked(pin.text).slice(0, 80)}</a>
                <button type="button" onClick={() => void attempt(api.pin(talk.id, pin.n, false), "Not pinned any more.").then(() => attempt(api.context(talk.id)).then((found) => found && setContext(found)))}>
                  Let go
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
      {context.repairs.length > 0 && (
        <>
          <h3>Repairs</h3>
          <p class="hint">So that the model accepts the conversation, these are sent otherwise than they were written. The file is as it was.</p>
          <ul class="plain-list" data-testid="repairs">
            {context.repairs.map((repair, index) => (
              <li key={index}>
                {repair.n === null ? <span>{visible(repair.message)}</span> : <a href={href({ view: "session", id: talk.id, panel: "context", n: repair.n })}>{visible(repair.message)}</a>}
              </li>
            ))}
          </ul>
        </>
      )}
    </aside>
  );
};
