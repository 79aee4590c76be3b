// Where the page is, behind the `#` of its address: that part never reaches a server or its logs. It names sessions and records, never a token; only
// the link that logs a browser in has a code there, which works once and is taken out of the address before anything else happens.
import { signal } from "@preact/signals";

export type Panel = "tree" | "context" | "about" | "compare";

export interface Route {
  view: "sessions" | "session" | "usage" | "new";
  id?: string;
  /** A record to show. */
  n?: number;
  /** The step whose way is looked at, if it is not the head. */
  at?: number;
  panel?: Panel;
  /** What `at` is compared with. */
  with?: number;
}

const number = (text: string | null): number | undefined => (text !== null && /^\d{1,15}$/.test(text) ? Number(text) : undefined);
const panels: readonly string[] = ["tree", "context", "about", "compare"];

const parse = (hash: string): Route => {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean);
  const asked = new URLSearchParams(query);
  if (parts[0] === "usage") return { view: "usage" };
  if (parts[0] === "new") return { view: "new" };
  if (parts[0] === "s" && parts[1]) {
    const route: Route = { view: "session", id: decodeURIComponent(parts[1]) };
    const [n, at, other, panel] = [number(asked.get("n")), number(asked.get("at")), number(asked.get("with")), asked.get("panel")];
    if (n !== undefined) route.n = n;
    if (at !== undefined) route.at = at;
    if (other !== undefined) route.with = other;
    if (panel !== null && panels.includes(panel)) route.panel = panel as Panel;
    return route;
  }
  return { view: "sessions" };
};

export const href = (route: Route): string => {
  if (route.view !== "session") return route.view === "sessions" ? "#/" : `#/${route.view}`;
  const asked = new URLSearchParams();
  if (route.n !== undefined) asked.set("n", String(route.n));
  if (route.at !== undefined) asked.set("at", String(route.at));
  if (route.with !== undefined) asked.set("with", String(route.with));
  if (route.panel) asked.set("panel", route.panel);
  const query = asked.toString();
  return `#/s/${encodeURIComponent(route.id ?? "")}${query ? `?${query}` : ""}`;
};

const read = (): Route => {
  try {
    return parse(location.hash);
  } catch {
    return { view: "sessions" };
  }
};

/** Takes the code of a login link out of the address, so that neither the history nor a reload has it. */
const takeLink = (): string | null => {
  const code = /^#link=([\w-]{1,128})$/.exec(location.hash)?.[1];
  if (location.hash.startsWith("#link=")) history.replaceState(null, "", location.pathname);
  return code ?? null;
};

/** The code of the link that opened this page, if one did. */
export const link = takeLink();
export const route = signal<Route>(read());
addEventListener("hashchange", () => {
  route.value = read();
});

export const go = (to: Route, how: "push" | "replace" = "push"): void => {
  const address = href(to);
  if (how === "replace") history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  route.value = to;
};
addEventListener("popstate", () => {
  route.value = read();
});

/** On a narrow screen a panel covers what is beneath it, so that the way back closes it. */
const isNarrow = matchMedia("(max-width: 760px)");
const COVER = "panel";

/** Closes what is open beside a conversation. */
export const uncover = (): void => {
  const { panel, with: _, ...rest } = route.value;
  if (!panel) return;
  if (history.state === COVER) history.back();
  else go(rest, "replace");
};

/** Opens a panel beside a conversation, or closes it. */
export const toggle = (panel: Panel): void => {
  const { panel: before, with: _, ...rest } = route.value;
  if (rest.view !== "session") return;
  if (before === panel) return uncover();
  const state: unknown = history.state;
  go({ ...rest, panel }, before === undefined && isNarrow.matches ? "push" : "replace");
  if (before === undefined ? isNarrow.matches : state === COVER) history.replaceState(COVER, "");
};
