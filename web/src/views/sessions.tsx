// The list of sessions, and what a search found in them.
import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Agent, Hit, Session } from "../api";
import { ago, count, moment, money } from "../format";
import * as list from "../list";
import { go, href, route } from "../route";
import { language, visible } from "../text";
import { IconButton, Spinner, now } from "../ui";
import { useVirtual } from "../virtual";

const ROW = 68;
const HIT = 84;
/** So many rows before the end, more are fetched. */
const AHEAD = 250;

const open = (event: MouseEvent, to: Parameters<typeof go>[0]) => {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  go(to);
};

export const titleOf = (session: Session | null): string => visible(session?.title ?? session?.label ?? "") || "Nothing said yet";

const marks = (session: Session): [string, string][] => {
  const found: [string, string][] = [];
  if (session.busy) found.push(["busy", "answering"]);
  else if (session.live) found.push(["live", "live"]);
  if (session.pinned) found.push(["pinned", "pinned"]);
  if (session.damage > 0) found.push(["damaged", session.damage === 1 ? "1 damaged place" : `${session.damage} damaged places`]);
  if (session.state !== "ok") found.push(["damaged", session.state]);
  return found;
};

const Row = ({ session, isOpen }: { session: Session; isOpen: boolean }) => {
  const updated = moment(session.updated);
  const title = titleOf(session);
  return (
    <a class={`row${isOpen ? " open" : ""}`} href={href({ view: "session", id: session.id })} data-testid="session" data-id={session.id} aria-current={isOpen ? "page" : undefined} onClick={(event) => open(event, { view: "session", id: session.id })}>
      <span class="first">
        <span class="title" dir="auto" lang={language(title)}>
          {title}
        </span>
        <time dateTime={session.updated ?? undefined} title={updated === null ? undefined : new Date(updated).toLocaleString()}>
          {updated === null ? "" : ago(updated, now.value)}
        </time>
      </span>
      <span class="second">
        {marks(session).map(([kind, name]) => (
          <span class={`mark ${kind}`} key={name}>
            {name}
          </span>
        ))}
        {session.label && session.title && <span class="mark label">{visible(session.label)}</span>}
        <span class="key" title={visible(session.key ?? "")}>
          {visible(session.key ?? "no key")}
        </span>
      </span>
      <span class="third">
        <span>
          {count(session.turns)} {session.turns === 1 ? "turn" : "turns"}
        </span>
        <span>{count(session.tokens)} tokens</span>
        <span title={session.cost_usd === null ? "No price is known for a model of this session" : undefined}>{money(session.cost_usd)}</span>
      </span>
    </a>
  );
};

/** Marks are places in bytes of UTF-8. */
const cut = (hit: Hit): [string, boolean][] => {
  const bytes = new TextEncoder().encode(hit.snippet);
  const text = new TextDecoder();
  const parts: [string, boolean][] = [];
  let at = 0;
  for (const [from, to] of hit.marks) {
    if (from < at || to > bytes.length) continue;
    parts.push([text.decode(bytes.slice(at, from)), false], [text.decode(bytes.slice(from, to)), true]);
    at = to;
  }
  parts.push([text.decode(bytes.slice(at)), false]);
  return parts;
};

const ROLES = new Map([
  ["user", "You"],
  ["assistant", "Answer"],
  ["tool_use", "Call"],
  ["tool_result", "Output"],
  ["summary", "Summary"],
  ["title", "Title"],
  ["label", "Label"],
]);

const Found = ({ hit }: { hit: Hit }) => {
  const at = moment(hit.at);
  const to = { view: "session" as const, id: hit.session, n: hit.n };
  const title = visible(hit.title ?? hit.key ?? hit.session);
  const isOpen = route.value.id === hit.session && route.value.n === hit.n;
  return (
    <a class={`row hit${isOpen ? " open" : ""}`} aria-current={isOpen ? "page" : undefined} href={href(to)} data-testid="hit" data-id={hit.session} data-n={hit.n} onClick={(event) => open(event, to)}>
      <span class="first">
        <span class="title" dir="auto" lang={language(title)}>
          {title}
        </span>
        <time dateTime={hit.at ?? undefined}>{at === null ? "" : ago(at, now.value)}</time>
      </span>
      <span class="snippet" dir="auto" lang={language(hit.snippet)}>
        <b>
          {ROLES.get(hit.role) ?? visible(hit.role)}
          {hit.tool ? ` of ${visible(hit.tool)}` : ""}
        </b>{" "}
        {cut(hit).map(([text, isMarked]) => (isMarked ? <mark>{visible(text)}</mark> : visible(text)))}
      </span>
      {(hit.trashed || hit.abandoned) && (
        <span class="second">
          {hit.trashed && <span class="mark damaged">in the trash</span>}
          {hit.abandoned && <span class="mark label">on another branch</span>}
        </span>
      )}
    </a>
  );
};

const Filters = ({ agents }: { agents: Agent[] }) => {
  const { agent, channel, peer, label, within, state, pinned } = list.filters.value;
  const isSearching = list.words.value.trim() !== "";
  const field = (name: "channel" | "peer" | "label", value: string, isOff = false) => (
    <label>
      {name[0]?.toUpperCase() + name.slice(1)}
      <input value={value} autocomplete="off" disabled={isOff} onChange={(event) => list.filter({ [name]: event.currentTarget.value.trim() })} />
    </label>
  );
  return (
    <form class="filters" data-testid="filters" onSubmit={(event) => event.preventDefault()}>
      <label>
        Agent
        <input value={agent} list="agents" autocomplete="off" onChange={(event) => list.filter({ agent: event.currentTarget.value.trim() })} />
        <datalist id="agents">
          {agents.map(({ name }) => (
            <option value={name} key={name} />
          ))}
        </datalist>
      </label>
      {field("channel", channel)}
      {field("peer", peer)}
      {field("label", label, isSearching)}
      <label>
        Time
        <select value={within} onChange={(event) => list.filter({ within: event.currentTarget.value })}>
          <option value="">any</option>
          <option value="1">the last hour</option>
          <option value="24">the last day</option>
          <option value="168">the last week</option>
          <option value="720">the last 30 days</option>
          <option value="8760">the last year</option>
        </select>
      </label>
      <label>
        State
        <select value={state} disabled={isSearching} onChange={(event) => list.filter({ state: event.currentTarget.value as list.Filters["state"] })}>
          <option value="">any</option>
          <option value="live">live</option>
          <option value="damaged">damaged</option>
          <option value="ok">sound</option>
          <option value="missing">missing</option>
          <option value="deleted">in the trash</option>
        </select>
      </label>
      <label class="check">
        <input type="checkbox" checked={pinned} disabled={isSearching} onChange={(event) => list.filter({ pinned: event.currentTarget.checked })} /> Pinned only
      </label>
      <button type="button" onClick={() => list.filter(list.none)} disabled={!list.isFiltered.value}>
        Clear
      </button>
      {isSearching && <p class="hint">A search is narrowed by agent, channel, peer and time; label, state and pins are for the list.</p>}
    </form>
  );
};

/** Moves among the rows with the keys. */
const step = (frame: HTMLElement | null, by: number): void => {
  const rows = [...(frame?.querySelectorAll<HTMLElement>("a.row") ?? [])];
  const at = rows.findIndex((row) => row === document.activeElement);
  const next = rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))];
  next?.focus({ preventScroll: false });
};

export const Sessions = ({ agents }: { agents: Agent[] }) => {
  const [isFiltering, setFiltering] = useState(false);
  const hits = list.hits.value;
  const rows = list.rows.value;
  const size = hits ? hits.length : rows.length;
  const shown = useVirtual({
    count: size,
    estimate: () => (hits ? HIT : ROW),
    keyOf: (index) => (hits ? `${hits[index]?.session}:${hits[index]?.n}:${index}` : (rows[index]?.id ?? index)),
    overscan: 12,
  });
  const last = shown.items[shown.items.length - 1]?.index ?? 0;
  useEffect(() => list.see(rows[last]?.id), [last, rows]);
  useEffect(() => {
    if (!hits && !list.isLoading.value && !list.isWhole.value && last > rows.length - AHEAD) void list.more();
  }, [last, rows.length, hits, list.isLoading.value, list.isWhole.value]);
  useEffect(() => shown.list.scrollToOffset(0), [hits === null, list.words.value, list.filters.value]);
  const openId = route.value.view === "session" ? route.value.id : undefined;
  return (
    <nav class="sessions" aria-label="Sessions">
      <div class="search">
        <input
          id="search"
          type="search"
          placeholder="Search what was said"
          aria-label="Search what was said"
          aria-keyshortcuts="/"
          title="Search (/)"
          autocomplete="off"
          spellcheck={false}
          value={list.words.value}
          onInput={(event) => list.look(event.currentTarget.value)}
          onKeyDown={(event) => {
            // While characters are being put together, these keys choose one.
            if (event.isComposing || event.keyCode === 229) return;
            if (event.key === "ArrowDown" || event.key === "Enter") {
              event.preventDefault();
              step(shown.frame.current, 0);
            } else if (event.key === "Escape") {
              list.look("");
              event.currentTarget.blur();
            }
          }}
        />
        <IconButton icon="filter" label={isFiltering ? "Hide filters" : "Show filters"} pressed={isFiltering || list.isFiltered.value} onClick={() => setFiltering(!isFiltering)} />
      </div>
      {isFiltering && <Filters agents={agents} />}
      {(list.searchProblem.value ?? list.problem.value) && (
        <p class="problem" role="alert">
          {visible(list.searchProblem.value ?? list.problem.value ?? "")}
        </p>
      )}
      <div
        class="rows"
        data-testid="sessions"
        ref={shown.frame as RefObject<HTMLDivElement | null>}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown" || event.key === "j") step(shown.frame.current, 1);
          else if (event.key === "ArrowUp" || event.key === "k") step(shown.frame.current, -1);
          else return;
          event.preventDefault();
          event.stopPropagation();
        }}
      >
        {size === 0 && !list.isLoading.value && !list.isSearching.value && !list.searchProblem.value && (
          <div class="nothing">
            {hits ? (
              <p>Nothing like that was said.</p>
            ) : list.isFiltered.value ? (
              <p>No session is like that.</p>
            ) : (
              <p>There are no sessions yet. Begin one with “New conversation”, or in a terminal with unforget.</p>
            )}
          </div>
        )}
        {size === 0 && (list.isLoading.value || list.isSearching.value) && <Spinner label={hits || list.isSearching.value ? "Searching" : "Loading"} />}
        <ul style={{ height: `${shown.height}px` }} aria-label={hits ? "What was found" : "Sessions"} class={list.isSearching.value ? "stale" : ""}>
          {shown.items.map((item) => {
            const [row, hit] = [rows[item.index], hits?.[item.index]];
            return (
              <li key={item.key} data-index={item.index} ref={shown.measure} style={{ transform: `translateY(${item.start}px)` }} aria-setsize={hits || list.isWhole.value ? size : -1} aria-posinset={item.index + 1}>
                {hit ? <Found hit={hit} /> : row ? <Row session={row} isOpen={row.id === openId} /> : null}
              </li>
            );
          })}
        </ul>
        {hits && list.hasMoreHits.value && <p class="hint">There is more: say it more exactly.</p>}
      </div>
    </nav>
  );
};
