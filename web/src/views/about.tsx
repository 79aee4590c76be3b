// What is known of a session, and what can be done with it.
import { useState } from "preact/hooks";
import * as api from "../api";
import { bytes, count, moment, money, when } from "../format";
import * as list from "../list";
import { attempt, done } from "../notice";
import { go } from "../route";
import type { Talk } from "../talk";
import { visible } from "../text";
import { IconButton, question } from "../ui";

export const remove = async (id: string): Promise<void> => {
  const removed = await attempt(api.remove(id).then(() => true));
  if (!removed) return;
  list.change(id, null);
  go({ view: "sessions" });
  done("The session is in the trash.", () => {
    void attempt(api.undelete(id), "It is back.").then((row) => {
      if (!row) return;
      void list.reload();
      go({ view: "session", id });
    });
  });
};

export const About = ({ talk, close }: { talk: Talk; close: () => void }) => {
  const [redact, setRedact] = useState(true);
  const session = talk.meta.value;
  if (!session) return null;
  const { id } = talk;
  const describe = (what: Parameters<typeof api.describe>[1], said: string) =>
    void attempt(api.describe(id, what), said).then((row) => {
      if (!row) return;
      talk.meta.value = row;
      list.change(id, row);
    });
  const ask = (title: string, label: string, value: string, hint: string, then: (answer: string) => void, mayBeEmpty = false) => {
    question.value = { title, label, value, hint, action: "Save", mayBeEmpty, then };
  };
  const facts: [string, string][] = [
    ["Id", id],
    ["Key", session.key ?? "none"],
    ["Label", session.label ?? "none"],
    ["Model", session.model ?? "none yet"],
    ["Begun", when(moment(session.created))],
    ["Last used", when(moment(session.updated))],
    ["Turns", count(session.turns)],
    ["Records", count(session.records)],
    ["Tokens", count(session.tokens)],
    ["Cost", session.cost_usd === null || session.cost_usd === undefined ? "no price is known" : money(session.cost_usd)],
    ["Size", bytes(session.bytes)],
    ["Kept", session.expires ?? "as the settings say"],
    ["Watched by", String(session.viewers)],
    ["Damage", session.damage === 0 ? "none" : `${session.damage} places`],
  ];
  return (
    <aside class="panel about" aria-label="About this session" data-testid="about">
      <header>
        <h2>About this session</h2>
        <IconButton icon="close" label="Close" onClick={close} />
      </header>
      <div class="actions stacked">
        <button type="button" onClick={() => ask("Rename", "Title", session.title ?? "", "", (title) => describe({ title }, "Renamed."))}>
          Rename
        </button>
        <button type="button" onClick={() => ask("Label", "Label", session.label ?? "", "Nothing takes it off.", (label) => describe({ label: label || null }, label ? "Labelled." : "The label is off."), true)}>
          Label
        </button>
        <button type="button" aria-pressed={session.pinned === true} onClick={() => describe({ pinned: !session.pinned }, session.pinned ? "Not pinned any more." : "Pinned.")}>
          {session.pinned ? "Unpin" : "Pin"}
        </button>
        <button type="button" onClick={() => ask("Keep for", "How long after its last word", session.expires ?? "", "30d, 12h, 6mo, 1y, never; nothing: as the settings say.", (expires) => describe({ expires: expires || null }, "Noted."), true)}>
          Expire
        </button>
        <button type="button" onClick={() => void attempt(api.fork(id, null), "A new session begins there.").then((forked) => forked && go({ view: "session", id: forked.id }))}>
          Fork
        </button>
        <button type="button" onClick={() => (question.value = { title: "Checkpoint", label: "Name of the checkpoint", action: "Name it", then: (name) => void attempt(api.checkpoint(id, name), `“${name}” stands here now.`) })}>
          Checkpoint
        </button>
        <button type="button" class="danger" onClick={() => void remove(id)}>
          Delete
        </button>
      </div>
      <h3>Export</h3>
      <div class="actions">
        <button type="button" onClick={() => void attempt(api.download(id, "jsonl", redact))}>
          Lines
        </button>
        <button type="button" onClick={() => void attempt(api.download(id, "json", redact))}>
          JSON
        </button>
        <button type="button" onClick={() => void attempt(api.download(id, "bundle", redact))}>
          Bundle
        </button>
        <label class="check">
          <input type="checkbox" checked={redact} onChange={(event) => setRedact(event.currentTarget.checked)} /> Mask secrets
        </label>
      </div>
      <h3>Facts</h3>
      <dl>
        {facts.map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{visible(value)}</dd>
          </>
        ))}
      </dl>
    </aside>
  );
};
