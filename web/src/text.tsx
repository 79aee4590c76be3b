// Stored text as text: it can be read, and it can do nothing. Characters that would move, hide or turn round what stands beside them are shown
// by their names; what looks like a secret is hidden until somebody asks for it.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { CLOSE, OPEN, STANDIN, hide, numberOf, spans } from "./mask";
import { memo } from "./memo";

/** Whether secrets are shown everywhere. */
export const unmasked = signal(false);

/** Controls, and whatever else leaves no mark; before them, flags and variants of characters, which are made with such. */
const UNSEEN =
  /\u{1F3F4}[\u{E0030}-\u{E0039}\u{E0061}-\u{E007A}]{1,6}\u{E007F}|\p{Script=Han}[\u{E0100}-\u{E01EF}]|[\u0000-\u0008\u000B-\u001F\u007F-\u009F\uFFF9-\uFFFB]|\p{Default_Ignorable_Code_Point}/u;
const UNSEEN_ALL = new RegExp(UNSEEN.source, "gu");
/** Marks that right-to-left writing, Indic scripts and emoji need, and that cannot turn anything round beyond their line. */
const HARMLESS = new Set(["\u200C", "\u200D", "\u200E", "\u200F", "\u2060", "\uFE0E", "\uFE0F"]);

/** The name of a character that cannot be seen. */
const name = (character: string): string => {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `\u2039${code.toString(16).toUpperCase().padStart(4, "0")}\u203A`;
};

/** So many in a row are counted, not named one by one. */
const MANY = 12;
const RUN = new RegExp(`(?:[\\u0000-\\u0008\\u000B-\\u001F\\u007F-\\u009F\\uFFF9-\\uFFFB]|\\p{Default_Ignorable_Code_Point}){${MANY},}`, "gu");
const counted = (run: string): string => {
  const all = [...run];
  const kinds = [...new Set(all)].slice(0, 4).map(name);
  return `\u2039${all.length} characters that cannot be seen: ${kinds.join(" ")}${new Set(all).size > 4 ? " …" : ""}\u203A`;
};

/** The text with names for what cannot be seen. Carriage returns before line feeds are let go. */
export const visible = (text: string): string => {
  if (!UNSEEN.test(text) && !text.includes("\u2028") && !text.includes("\u2029")) return text;
  return text
    .replace(/\r\n|[\u2028\u2029]/g, "\n")
    .replace(RUN, counted)
    .replace(UNSEEN_ALL, (found) => (HARMLESS.has(found) || [...found].length > 1 ? found : name(found)));
};

/** The language that a text's writing suggests, so that its characters get the right forms. */
export const language = (text: string): string | undefined => {
  const part = text.length > 2000 ? text.slice(0, 2000) : text;
  if (/[\u3040-\u30FF\u31F0-\u31FF\uFF66-\uFF9D]/.test(part)) return "ja";
  if (/[\u1100-\u11FF\u3130-\u318F\uAC00-\uD7AF]/.test(part)) return "ko";
  if (/[\u3105-\u312F]/.test(part)) return "zh-Hant";
  if (/[\u4E00-\u9FFF]/.test(part)) return "zh";
  return undefined;
};

const Secret = ({ text }: { text: string }) => {
  const [shown, show] = useState(false);
  if (shown || unmasked.value) return <span class="secret shown">{visible(text)}</span>;
  return (
    <button type="button" class="secret" title="Looks like a secret; show it" aria-label="Hidden secret; show it" onClick={() => show(true)}>
      {visible(text.slice(0, 4))}…[masked {text.length}]
    </button>
  );
};

/** Text in which secrets have stand-ins. */
export const withSecrets = (text: string, hidden: readonly string[]): ComponentChildren => {
  if (hidden.length === 0 || !text.includes(OPEN)) return visible(text);
  const parts: ComponentChildren[] = [];
  let at = 0;
  for (const match of text.matchAll(STANDIN)) {
    parts.push(visible(text.slice(at, match.index)));
    const secret = hidden[numberOf(match[1] ?? "")];
    if (secret !== undefined) parts.push(<Secret text={secret} />);
    at = match.index + match[0].length;
  }
  parts.push(visible(text.slice(at)));
  return parts;
};

/** The text with secrets out of sight, for where no button can be. */
export const masked = (text: string): string => (unmasked.value ? visible(text) : withoutSecrets(hide(text).text));

/** The text without stand-ins. */
export const withoutSecrets = (text: string): string =>
  visible(text.replace(STANDIN, "…[masked]"));

export const Text = ({ text }: { text: string }) => {
  const hidden = hide(text);
  return <>{withSecrets(hidden.text, hidden.secrets)}</>;
};

/** How much of a long text is shown before somebody asks for more, and how much more each time. */
const FIRST = 6_000;
const MORE = 200_000;
/** How far behind a cut is looked for the rest of a secret. */
const REACH = 8_192;

/** Where a text is cut, so that no secret is cut with it, or parted from the words before it: it would not be known for one. */
export const cutAt = (text: string, from: number, wanted: number): number => {
  for (let reach = REACH; wanted < text.length; reach *= 2) {
    const end = Math.min(text.length, wanted + reach);
    const crossing = spans(text.slice(from, end)).find(([, to, told]) => from + told < wanted && wanted < from + to);
    if (!crossing) return wanted;
    if (crossing[2] > 0) return from + crossing[2];
    // One that reaches as far as was looked may go on behind it.
    if (from + crossing[1] < end || end === text.length || reach > MORE) return from + crossing[1];
  }
  return text.length;
};

/** Where a text with stand-ins is cut: before one, and never within. */
const cutBeside = (text: string, from: number, wanted: number): number => {
  if (wanted >= text.length) return text.length;
  const open = text.lastIndexOf(OPEN, wanted - 1);
  const close = open < from ? -1 : text.indexOf(CLOSE, open);
  if (close < wanted) return wanted;
  return open > from ? open : close + 1;
};

const Chunk = memo(({ text, secrets }: { text: string; secrets: readonly string[] | undefined }) => (secrets ? <>{withSecrets(text, secrets)}</> : <Text text={text} />));

/** Plain text with its line breaks, not all at once if it is long. With `secrets`, it has stand-ins for these. */
export const Plain = ({ text, secrets, label, first = FIRST }: { text: string; secrets?: readonly string[]; label?: string; first?: number }) => {
  const [times, setTimes] = useState(0);
  const chunks = useMemo(() => {
    const cut = secrets ? cutBeside : cutAt;
    const found: string[] = [];
    for (let [at, time] = [0, 0]; at < text.length && time <= times; time++) {
      const end = cut(text, at, at + (time === 0 ? first : MORE));
      found.push(text.slice(at, end));
      at = end;
    }
    return found;
  }, [text, times, first, secrets === undefined]);
  const rest = text.length - chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  return (
    <>
      <pre class="plain" dir="auto" lang={language(text)} tabIndex={0} aria-label={label ?? "Text"}>
        {chunks.map((chunk, index) => (
          <Chunk key={index} text={chunk} secrets={secrets} />
        ))}
      </pre>
      {rest > 0 && (
        <button type="button" class="more" onClick={() => setTimes(times + 1)}>
          Show more ({rest.toLocaleString("en")} characters are left)
        </button>
      )}
    </>
  );
};
