// The page of `unforget serve`: the sessions on the left, one of them in the middle, what is known of it on the right; one at a time on a phone.
import { signal } from "@preact/signals";
import { render } from "preact";
import { useEffect } from "preact/hooks";
import * as api from "./api";
import type { Me } from "./api";
import * as list from "./list";
import { dismiss, notices, wrong } from "./notice";
import { go, link, route } from "./route";
import { forget, setActor } from "./store";
import "./style.css";
import { theme, turn } from "./theme";
import { IconButton, Questions, Spinner } from "./ui";
import { Beginning, Conversation } from "./views/conversation";
import { Help, isHelping } from "./views/keys";
import { Login } from "./views/login";
import { Sessions } from "./views/sessions";
import { UsageView } from "./views/usage";

const me = signal<Me | null>(null);
const isStranger = signal(false);
/** Why the link that opened this page did not log in. */
const refused = signal<string | null>(null);
/** Other tabs of this browser: whoever comes or goes in one comes or goes in all. */
const tabs = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("identity");
tabs?.addEventListener("message", () => location.reload());
addEventListener("pageshow", (event) => event.persisted && location.reload());

const arrive = async (): Promise<void> => {
  try {
    const known = await api.me();
    setActor(known.actor);
    me.value = known;
    list.begin();
  } catch (error) {
    if (error instanceof api.Problem && error.status === 401) return;
    setTimeout(() => void arrive(), 2000);
  }
};
api.onStranger(() => {
  isStranger.value = true;
});

/** Somebody is known now: the page begins anew, with nothing of whoever was here before. */
const comes = (): void => {
  tabs?.postMessage("came");
  location.reload();
};

/** Logs in by the link that opened this page; then, or without one, sees who is here. */
const enter = async (): Promise<void> => {
  if (link === null) return arrive();
  try {
    await api.follow(link);
    comes();
  } catch (error) {
    refused.value = error instanceof Error ? error.message : String(error);
    // This browser may be logged in all the same.
    isStranger.value = false;
    await arrive();
  }
};

const leave = async (): Promise<void> => {
  try {
    await api.logout();
    // What was typed here is nobody else's business.
    forget();
    tabs?.postMessage("left");
    location.replace("/");
    location.reload();
  } catch (error) {
    wrong(error);
  }
};

const Notices = () => (
  <div class="notices" role="status" aria-live="polite">
    {notices.value.map((notice) => (
      <div class={`notice ${notice.kind}`} key={notice.id} data-testid="notice">
        <span>{notice.text}</span>
        {notice.undo && (
          <button
            type="button"
            onClick={() => {
              notice.undo?.();
              dismiss(notice.id);
            }}
          >
            Undo
          </button>
        )}
        <IconButton icon="close" label="Dismiss" onClick={() => dismiss(notice.id)} />
      </div>
    ))}
  </div>
);

const Middle = ({ known }: { known: Me }) => {
  const { view, id, at } = route.value;
  if (view === "session" && id) return <Conversation key={`${id}:${at ?? ""}`} id={id} at={at} />;
  if (view === "usage") return <UsageView />;
  if (view === "new") return <Beginning agents={known.agents} usual={known.default} />;
  return (
    <main class="nothing welcome" aria-label="Nothing chosen">
      <p>Choose a session, or begin one.</p>
      <p class="hint">
        <kbd>/</kbd> searches, <kbd>n</kbd> begins, <kbd>?</kbd> shows all shortcuts.
      </p>
    </main>
  );
};

const Page = () => {
  useEffect(() => void enter(), []);
  useEffect(() => {
    if (route.value.view === "sessions") document.title = "unforget";
  }, [route.value]);
  if (isStranger.value) return <Login then={comes} refused={refused.value} />;
  const known = me.value;
  if (!known) return <Spinner label="Loading" />;
  return (
    <div class={`page view-${route.value.view}`}>
      <div class="left">
        <header class="top">
          <a class="brand" href="#/">
            unforget
          </a>
          <button type="button" class="main" title="New conversation (n)" aria-keyshortcuts="n" onClick={() => go({ view: "new" })}>
            New conversation
          </button>
        </header>
        <Sessions agents={known.agents} />
        <footer>
          <IconButton icon="chart" label="Usage" keys="u" pressed={route.value.view === "usage"} onClick={() => go({ view: "usage" })} />
          <IconButton icon="sun" label={`Colours: ${theme.value === "auto" ? "as the system" : theme.value}`} keys="d" onClick={turn} />
          <IconButton icon="keys" label="Shortcuts" keys="?" onClick={() => (isHelping.value = true)} />
          <span class="who" title={`unforget ${known.version}`}>
            {known.actor}
          </span>
          {known.needs_token && <IconButton icon="out" label="Log out" onClick={() => void leave()} />}
        </footer>
      </div>
      <Middle known={known} />
      <Notices />
      <Questions />
      <Help />
    </div>
  );
};

const root = document.getElementById("page");
if (root) render(<Page />, root);
