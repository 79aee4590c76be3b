// A picture of the branches: a row for each thing that the user said, lanes for the ways that they lead, and on them names, compactions and the head.
import { useEffect, useMemo, useState } from "preact/hooks";
import * as api from "../api";
import type { Tree, Turn } from "../api";
import { layOut, type Row } from "../draw";
import { ago } from "../format";
import { attempt } from "../notice";
import { go, href, route } from "../route";
import type { Talk } from "../talk";
import { language, masked, visible } from "../text";
import { IconButton, Spinner, now, question } from "../ui";

const HEIGHT = 34;
const LANE = 18;
const LEFT = 14;
/** More lanes than these are scrolled to. */
const MOST_LANES = 8;

/** What went wrong in a turn, in a word or two. */
const badly = (turn: Turn): string | null => {
  if (turn.state !== null && turn.state !== "done" && turn.state !== "running") return visible(turn.state);
  return turn.errors > 0 ? (turn.errors === 1 ? "1 error" : `${turn.errors} errors`) : null;
};

export const TreeView = ({ talk, close }: { talk: Talk; close: () => void }) => {
  const [tree, setTree] = useState<Tree | null>(null);
  const [chosen, choose] = useState<number | null>(null);
  const [other, setOther] = useState<number | null>(null);
  const shape = talk.shape.value;
  useEffect(() => {
    let isOld = false;
    void attempt(api.tree(talk.id)).then((found) => found && !isOld && setTree(found));
    return () => {
      isOld = true;
    };
  }, [talk, shape]);
  const rows = useMemo(() => (tree ? layOut(tree) : []), [tree]);
  const lanes = rows.reduce((most, row) => Math.max(most, row.lane + 1), 1);
  const widthOf = (count: number) => LEFT + count * LANE + 6;
  const x = (lane: number) => LEFT + lane * LANE;
  const y = (at: number) => at * HEIGHT + HEIGHT / 2;
  const back = () => go({ view: "session", id: talk.id, panel: "tree" }, "replace");
  const withEnd = (row: Row, work: (end: number) => void) => () => work(row.turn.end);
  const forkAt = (at: number) => void attempt(api.fork(talk.id, at), "A new session begins there.").then((forked) => forked && go({ view: "session", id: forked.id }));
  const ask = (title: string, label: string, then: (name: string) => void) => {
    question.value = { title, label, action: "Name it", then };
  };
  const picked = rows.find((row) => row.turn.n === chosen);
  const actions = (row: Row) => (
    <div class="actions" role="group" aria-label={`What to do with record ${row.turn.n}`}>
      <button type="button" onClick={withEnd(row, (end) => go({ view: "session", id: talk.id, panel: "tree", n: row.turn.n, ...(end === tree?.head ? {} : { at: end }) }))}>
        Look
      </button>
      <button type="button" onClick={withEnd(row, (end) => void attempt(api.rewind(talk.id, end), "The conversation goes on from there.").then((moved) => moved && back()))}>
        Rewind to it
      </button>
      <button type="button" disabled={row.turn.before === null} onClick={() => row.turn.before !== null && forkAt(row.turn.before)}>
        Fork before it
      </button>
      <button type="button" onClick={withEnd(row, forkAt)}>
        Fork after it
      </button>
      <button type="button" onClick={withEnd(row, (end) => ask("Branch from there", "Name of the branch", (name) => void attempt(api.branch(talk.id, name, end), `The conversation is on “${name}” now.`).then((begun) => begun && back())))}>
        Branch
      </button>
      <button type="button" onClick={withEnd(row, (end) => ask("Checkpoint", "Name of the checkpoint", (name) => void attempt(api.checkpoint(talk.id, name, end), `“${name}” stands there now.`)))}>
        Name
      </button>
      <button
        type="button"
        onClick={withEnd(row, (end) => {
          if (other === null) {
            setOther(end);
            choose(null);
          } else go({ view: "session", id: talk.id, panel: "compare", at: other, with: end });
        })}
      >
        {other === null ? "Compare…" : "Compare with it"}
      </button>
    </div>
  );
  return (
    <aside class="panel tree" aria-label="Branches" data-testid="tree">
      <header>
        <h2>Branches</h2>
        <IconButton icon="close" label="Close" onClick={close} />
      </header>
      {other !== null && (
        <p class="hint" role="status">
          Choose what to compare record {other} with.{" "}
          <button type="button" onClick={() => setOther(null)}>
            Leave it
          </button>
        </p>
      )}
      {tree === null ? (
        <Spinner label="Loading" />
      ) : rows.length === 0 ? (
        <p class="hint">Nothing was said yet.</p>
      ) : (
        <div class="graph">
          <div class="lanes" style={{ maxWidth: `${widthOf(MOST_LANES)}px` }} {...(lanes > MOST_LANES ? { tabIndex: 0, role: "group", "aria-label": "Lanes" } : {})}>
            <svg width={widthOf(lanes)} height={rows.length * HEIGHT} role="img" aria-label={`${tree.branches.length} branches with ${rows.length} turns`}>
              {rows.map((row, at) => {
                if (row.parent === null) return null;
                const [fx, fy, tx, ty] = [x((rows[row.parent] as Row).lane), y(row.parent), x(row.lane), y(at)];
                const way = fx === tx ? `M${fx} ${fy}V${ty}` : `M${fx} ${fy}C${fx} ${fy + HEIGHT * 0.8} ${tx} ${Math.min(fy + HEIGHT * 0.4, ty)} ${tx} ${Math.min(fy + HEIGHT, ty)}V${ty}`;
                return <path key={row.turn.n} d={way} class={row.isOnPath ? "on" : "off"} />;
              })}
              {rows.map((row, at) => (
                <g key={row.turn.n}>
                  <circle cx={x(row.lane)} cy={y(at)} r={row.names.some((one) => one.kind === "head") ? 7 : 5} class={`${row.isOnPath ? "on" : "off"}${badly(row.turn) ? " bad" : ""}`} />
                  {row.names.some((one) => one.kind === "checkpoint") && <path class="flag" d={`M${x(row.lane) + 5} ${y(at) - 5}l7 -5v9z`} />}
                  {row.names.some((one) => one.kind === "compaction") && <path class="cut" d={`M${x(row.lane) - 7} ${y(at) + 9}h14`} />}
                </g>
              ))}
            </svg>
          </div>
          <ol>
            {rows.map((row) => {
              const isChosen = chosen === row.turn.n;
              const words = visible(row.turn.words) || `record ${row.turn.n}`;
              return (
                <li key={row.turn.n} class={row.isOnPath ? "on" : "off"}>
                  <button type="button" class="turn" data-testid="turn" data-n={row.turn.n} aria-pressed={isChosen} style={{ height: `${HEIGHT}px` }} onClick={() => choose(isChosen ? null : row.turn.n)}>
                    <span class="words" dir="auto" lang={language(words)}>
                      {masked(words)}
                    </span>
                    {badly(row.turn) && <span class="name bad">{badly(row.turn)}</span>}
                    {row.names.map((one) => (
                      <span class={`name ${one.kind}`} key={one.name}>
                        {masked(one.name).slice(0, 40)}
                      </span>
                    ))}
                    <time>{row.turn.ms === null ? "" : ago(row.turn.ms, now.value)}</time>
                  </button>
                </li>
              );
            })}
          </ol>
        </div>
      )}
      {tree?.more && <p class="hint">Only the newest turns are drawn.</p>}
      {route.value.at !== undefined && (
        <p>
          <a href={href({ view: "session", id: talk.id, panel: "tree" })}>Back to where it goes on</a>
        </p>
      )}
      {picked && <footer>{actions(picked)}</footer>}
    </aside>
  );
};
