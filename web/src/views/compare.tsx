// Two branches side by side, from where they part.
import { useEffect, useState } from "preact/hooks";
import * as api from "../api";
import type { Line } from "../api";
import { attempt } from "../notice";
import { part, type Sides } from "../order";
import { go } from "../route";
import type { Talk } from "../talk";
import { IconButton, Spinner } from "../ui";
import { RecordView } from "./record";

const MOST = 200;

const Side = ({ talk, name, items }: { talk: Talk; name: string; items: number[] }) => {
  const [most, setMost] = useState(MOST);
  const shown = items.slice(0, most);
  const version = talk.version.value;
  useEffect(() => talk.ensure(shown), [items, most, version]);
  return (
    <section class="side" aria-label={name} data-testid="side" tabIndex={0}>
      <h2>{name}</h2>
      {items.length === 0 && <p class="hint">Nothing of its own: it ends where they part.</p>}
      {shown.map((n) => {
        const line: Line | undefined = talk.lines.get(n);
        return line ? <RecordView key={n} talk={talk} line={line} before={null} version={version} /> : <div class="unread" key={n} />;
      })}
      {items.length > most && (
        <button type="button" class="more" onClick={() => setMost(most + MOST)}>
          {items.length - most} more
        </button>
      )}
    </section>
  );
};

export const Compare = ({ talk, other }: { talk: Talk; other: number }) => {
  const [sides, setSides] = useState<Sides | null>(null);
  const at = talk.at;
  useEffect(() => {
    talk.compared = true;
    return () => {
      talk.compared = false;
    };
  }, [talk]);
  useEffect(() => {
    setSides(null);
    void attempt(Promise.all([api.path(talk.id, at), api.path(talk.id, other)])).then((found) => found && setSides(part(found[0], found[1])));
  }, [talk, other]);
  return (
    <div class="compare" data-testid="compare">
      <header>
        <span>{sides ? `${sides.shared} records are the same on both; this is what is different.` : ""}</span>
        <IconButton icon="close" label="Close the comparison" onClick={() => go({ view: "session", id: talk.id, panel: "tree" }, "replace")} />
      </header>
      {sides ? (
        <div class="sides">
          <Side talk={talk} name={at === null ? "Where it goes on" : `Up to record ${at}`} items={sides.left} />
          <Side talk={talk} name={`Up to record ${other}`} items={sides.right} />
        </div>
      ) : (
        <Spinner label="Comparing" />
      )}
    </div>
  );
};
