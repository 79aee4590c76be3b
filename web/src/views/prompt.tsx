// The box that one talks with: what was said before comes back with the arrow keys, and what was begun is kept until it is sent.
import { useEffect, useRef, useState } from "preact/hooks";
import { browser, tab } from "../store";
import { Icon } from "../ui";

const PAST = 100;
const past = (): string[] => {
  try {
    const found: unknown = JSON.parse(browser.read("past") ?? "[]");
    return Array.isArray(found) ? found.filter((one): one is string => typeof one === "string") : [];
  } catch {
    return [];
  }
};
const remember = (words: string): void => {
  if (words.length < 4000) browser.write("past", JSON.stringify([words, ...past().filter((one) => one !== words)].slice(0, PAST)));
};

const draftOf = (name: string): string => tab.read(`draft:${name}`) ?? "";
const keepDraft = (name: string, words: string): boolean => tab.write(`draft:${name}`, words);

/** Puts words into the box of a session, before what is there. */
export const draft = (name: string, words: string): void => {
  const before = draftOf(name);
  keepDraft(name, before && before !== words ? `${words}\n\n${before}` : words);
  window.dispatchEvent(new Event("draft"));
};

const isTouch = matchMedia("(pointer: coarse)");

export interface PromptProps {
  name: string;
  isRunning: boolean;
  hint: string;
  send: (words: string) => void;
  abort: () => void;
}

export const Prompt = ({ name, isRunning, hint, send, abort }: PromptProps) => {
  const [words, setWords] = useState(() => draftOf(name));
  const [at, setAt] = useState(-1);
  const box = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    setWords(draftOf(name));
    setAt(-1);
  }, [name]);
  useEffect(() => {
    const take = () => {
      setWords(draftOf(name));
      box.current?.focus();
    };
    addEventListener("draft", take);
    return () => removeEventListener("draft", take);
  }, [name]);
  useEffect(() => {
    keepDraft(name, words);
    const area = box.current;
    if (!area) return;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight, Math.round(innerHeight * 0.4))}px`;
  }, [words, name]);
  const submit = () => {
    const said = words.trim();
    if (!said) return;
    remember(said);
    setWords("");
    keepDraft(name, "");
    setAt(-1);
    send(said);
  };
  const recall = (by: number): boolean => {
    const all = past();
    const next = at + by;
    if (next >= all.length || next < -1) return false;
    setAt(next);
    setWords(next < 0 ? "" : (all[next] ?? ""));
    return true;
  };
  return (
    <form
      class="prompt"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <textarea
        id="prompt"
        ref={box}
        rows={1}
        dir="auto"
        aria-label="Say something"
        aria-keyshortcuts="i"
        placeholder={hint}
        enterkeyhint={isTouch.matches ? "enter" : "send"}
        value={words}
        onInput={(event) => {
          setWords(event.currentTarget.value);
          setAt(-1);
        }}
        onKeyDown={(event) => {
          // While characters are being put together, Enter chooses one.
          if (event.isComposing || event.keyCode === 229) return;
          const area = event.currentTarget;
          // A keyboard of glass has no Shift+Enter; there the button sends.
          if (event.key === "Enter" && !event.shiftKey && !isTouch.matches) {
            event.preventDefault();
            submit();
          } else if (event.key === "ArrowUp" && (words === "" || at >= 0) && area.selectionStart === area.selectionEnd && !words.slice(0, area.selectionStart).includes("\n")) {
            if (recall(1)) event.preventDefault();
          } else if (event.key === "ArrowDown" && at >= 0 && !words.slice(area.selectionEnd).includes("\n")) {
            if (recall(-1)) event.preventDefault();
          } else if (event.key === "Escape") {
            if (isRunning) abort();
            else area.blur();
            event.stopPropagation();
          }
        }}
      />
      {isRunning && (
        <button type="button" class="stop" title="Abort (Esc)" aria-keyshortcuts="Escape" onClick={abort}>
          <Icon name="stop" /> Abort
        </button>
      )}
      <button type="submit" class="main" aria-label="Send" title="Send (Enter; Shift+Enter for a new line)" disabled={words.trim() === ""}>
        <Icon name="send" />
      </button>
    </form>
  );
};
