// What all sessions took, day by day.
import { useEffect, useState } from "preact/hooks";
import * as api from "../api";
import type { Usage, UsageRow } from "../api";
import { type Bar, bars, roof } from "../draw";
import { count, money } from "../format";
import { attempt } from "../notice";
import { visible } from "../text";
import { Spinner } from "../ui";

const DAYS = [7, 30, 90, 365];
const tokens = (row: UsageRow): number => row.input + row.output + row.cache_write + row.cache_read;

/** The chart as numbers: the newest day first, days on which nothing happened left out. */
const Days = ({ bars: all, names, shown }: { bars: Bar[]; names: string[]; shown: (value: number) => string }) => {
  const [isOpen, open] = useState(false);
  return (
    <details data-testid="days" open={isOpen} onToggle={(event) => open(event.currentTarget.open)}>
      <summary>The days as a table</summary>
      {isOpen && (
        <div class="table" tabIndex={0} role="region" aria-label="Days">
          <table>
            <thead>
              <tr>
                {["Day", ...names.map((name) => visible(name) || "none"), "All"].map((name, index) => (
                  <th scope="col" class={index > 0 ? "align-right" : ""} key={index}>
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {all
                .filter((bar) => bar.total > 0)
                .reverse()
                .map((bar) => (
                  <tr key={bar.day}>
                    <th scope="row">{bar.day}</th>
                    {[...bar.parts.map((part) => part.value), bar.total].map((value, index) => (
                      <td class="align-right" key={index}>
                        {shown(value)}
                      </td>
                    ))}
                  </tr>
                ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
};

export const UsageView = () => {
  const [days, setDays] = useState(30);
  const [by, setBy] = useState<"model" | "agent">("model");
  const [what, setWhat] = useState<"tokens" | "cost">("tokens");
  const [found, setFound] = useState<{ daily: Usage; whole: Usage } | null>(null);
  useEffect(() => {
    // An answer that comes late does not take the place of a newer one.
    let isOld = false;
    document.title = "Usage · unforget";
    const since = new Date(Date.now() - (days - 1) * 86_400_000);
    since.setUTCHours(0, 0, 0, 0);
    const from = since.toISOString();
    void attempt(Promise.all([api.usage({ by: "day", and: by, since: from }), api.usage({ by, since: from })])).then((both) => both && !isOld && setFound({ daily: both[0], whole: both[1] }));
    return () => {
      isOld = true;
    };
  }, [days, by]);
  const all = Array.from({ length: days }, (_, ago) => new Date(Date.now() - (days - 1 - ago) * 86_400_000).toISOString().slice(0, 10));
  const of = what === "tokens" ? tokens : (row: UsageRow) => row.cost_usd ?? 0;
  const drawn = found ? bars(found.daily.rows, by, all, of) : null;
  const most = Math.max(...(drawn?.bars.map((bar) => bar.total) ?? []), 0);
  const top = roof(most);
  const width = 100 / days;
  const shown = what === "tokens" ? count : money;
  const named = what === "tokens" ? "Tokens" : "Cost";
  return (
    <main class="usage" aria-label="Usage">
      <header class="top">
        <a class="icon-button only-narrow" href="#/" aria-label="All sessions">
          <svg class="icon" viewBox="0 0 24 24" width="18" height="18" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">
            <path d="M15 5l-7 7 7 7" />
          </svg>
        </a>
        <h1>Usage</h1>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Usage figures">
        <div class="actions">
          <label>
            Days{" "}
            <select value={days} onChange={(event) => setDays(Number(event.currentTarget.value))}>
              {DAYS.map((one) => (
                <option value={one} key={one}>
                  {one}
                </option>
              ))}
            </select>
          </label>
          <label>
            By{" "}
            <select value={by} onChange={(event) => setBy(event.currentTarget.value as "model" | "agent")}>
              <option value="model">model</option>
              <option value="agent">agent</option>
            </select>
          </label>
          <label>
            Show{" "}
            <select value={what} onChange={(event) => setWhat(event.currentTarget.value as "tokens" | "cost")}>
              <option value="tokens">tokens</option>
              <option value="cost">cost</option>
            </select>
          </label>
        </div>
        {!found || !drawn ? (
          <Spinner label="Loading" />
        ) : (
          <>
            <p class="big">
              {count(tokens(found.whole.total))} tokens <small>{money(found.whole.total.cost_usd)} · {count(found.whole.total.turns)} turns · {count(found.whole.total.tools)} calls of tools</small>
            </p>
            <figure class="chart" data-testid="chart">
              <p class="hint">{named} a day, by {by}</p>
              <div class="plot">
                {[1, 0.5].map((share) => (
                  <div class={share === 1 ? "grid" : "grid half"} key={share} aria-hidden="true">
                    <span>{shown(top * share)}</span>
                  </div>
                ))}
                <svg viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label={`${named} a day, at most ${shown(most)}`}>
                  {drawn.bars.map((bar, at) => {
                    let y = 40;
                    return bar.parts.map((part, index) => {
                      const height = (38 * part.value) / top;
                      y -= height;
                      return height > 0 ? (
                        <rect key={`${bar.day}${part.name}`} class={`series-${index}`} x={at * width + width * 0.1} y={y} width={width * 0.8} height={height}>
                          <title>{`${bar.day}, ${visible(part.name) || "none"}: ${shown(part.value)}`}</title>
                        </rect>
                      ) : null;
                    });
                  })}
                </svg>
              </div>
              <figcaption>
                <span>{all[0]}</span>
                <span>at most {shown(most)} a day</span>
                <span>{all[all.length - 1]}</span>
              </figcaption>
            </figure>
            <Days bars={drawn.bars} names={drawn.names} shown={shown} />
            <div class="table" tabIndex={0} role="region" aria-label="Table">
              <table>
                <thead>
                  <tr>
                    <th scope="col">{by === "model" ? "Model" : "Agent"}</th>
                    {["Turns", "Calls", "Tools", "Input", "Output", "Cache writes", "Cache reads", "Cost"].map((name) => (
                      <th scope="col" class="align-right" key={name}>
                        {name}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {found.whole.rows.map((row) => {
                    const name = row[by] ?? "";
                    const index = drawn.names.indexOf(name);
                    return (
                      <tr key={name}>
                        <th scope="row">
                          <i class={`dot series-${index < 0 ? drawn.names.length - 1 : index}`} /> {visible(name) || "none"}
                        </th>
                        {[row.turns, row.calls, row.tools, row.input, row.output, row.cache_write, row.cache_read].map((value, at) => (
                          <td class="align-right" key={at}>
                            {count(value)}
                          </td>
                        ))}
                        <td class="align-right">{money(row.cost_usd)}</td>
                      </tr>
                    );
                  })}
                </tbody>
              </table>
            </div>
            {(found.whole.unpriced?.length ?? 0) > 0 && <p class="hint">No price is known for {found.whole.unpriced?.map(visible).join(", ")}; the setting `prices` can say it.</p>}
            <p class="hint">Days are those of UTC.</p>
          </>
        )}
      </div>
    </main>
  );
};
