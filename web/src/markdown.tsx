// Markdown as elements. The parser knows no HTML and gives tokens; each becomes an element of a short list here, with no attribute that stored text
// could choose but the target of a link, which must be one of three kinds. Images from elsewhere are named and never fetched.
//
// A text is cut at blank lines between which nothing can reach over, and each piece is taken apart once: an answer that grows costs what
// is added to it. Secrets do reach over blank lines, so they are hidden before it is cut.
import MarkdownIt from "markdown-it";
import type { ComponentChildren, VNode } from "preact";
import { createElement } from "preact";
import { useRef } from "preact/hooks";
import { memo } from "./memo";
import { Code } from "./code";
import { MOST, OPEN, hide } from "./mask";
import { Plain, language, visible, withSecrets, withoutSecrets } from "./text";

/** What is nested deeper is shown as it is. */
const NESTING = 60;

const parser = new MarkdownIt("default", { html: false, linkify: true, breaks: false, typographer: false, maxNesting: NESTING } as object);
parser.validateLink = () => true;
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });

type Token = ReturnType<typeof parser.parse>[number];

/** A longer piece is shown as it is. */
const PIECE = 60_000;
/** More pieces than this are shown when asked for. */
const PIECES = 400;

/** Where a link may lead. */
export const target = (address: string): string | undefined => {
  try {
    const url = new URL(address);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
};

const TAGS = new Set(["p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "strong", "em", "s"]);
/** Headings of a message stand beneath those of the page. */
const LOWER: { [tag: string]: string } = { h1: "h3", h2: "h4", h3: "h5", h4: "h6", h5: "h6", h6: "h6" };

interface Open {
  tag: string | null;
  props: { [name: string]: unknown };
  inside: ComponentChildren[];
}

const element = (open: Open): ComponentChildren => {
  if (open.tag === null) return open.inside;
  const made: VNode = createElement(open.tag, open.props, open.inside);
  if (open.tag !== "table") return made;
  return (
    <div class="table" tabIndex={0} role="region" aria-label="Table">
      {made}
    </div>
  );
};

/** What a text is drawn with. */
interface Manner {
  secrets: readonly string[];
  /** Whether there will be more of it: colours can wait. */
  isGrowing: boolean;
}

/** A secret within an address leads nowhere; the address is shown, with its secret hidden. */
const isWhole = (address: string): boolean => !address.includes(OPEN) && !address.includes(encodeURIComponent(OPEN));

const opened = (token: Token): Open => {
  const props: { [name: string]: unknown } = {};
  if (token.type === "link_open") {
    const address = String(token.attrGet("href") ?? "");
    const to = isWhole(address) ? target(address) : undefined;
    if (to === undefined) return { tag: "span", props: { class: "dead", title: "This link leads nowhere that a page should go" }, inside: [] };
    return { tag: "a", props: { href: to, rel: "noopener noreferrer nofollow", target: "_blank", title: visible(to) }, inside: [] };
  }
  if (!TAGS.has(token.tag)) return { tag: null, props, inside: [] };
  if (token.tag === "ol") {
    const start = Number(token.attrGet("start") ?? "1");
    if (Number.isSafeInteger(start) && start !== 1) props["start"] = start;
  }
  const align = /text-align:(left|right|center)/.exec(String(token.attrGet("style") ?? ""))?.[1];
  if (align) props["class"] = `align-${align}`;
  if (token.tag === "th") props["scope"] = "col";
  if (["p", "li", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6"].includes(token.tag)) props["dir"] = "auto";
  return { tag: LOWER[token.tag] ?? token.tag, props, inside: [] };
};

const leaf = (token: Token, manner: Manner): ComponentChildren => {
  const { secrets } = manner;
  switch (token.type) {
    case "text":
    case "text_special":
      return withSecrets(token.content, secrets);
    case "inline":
      return elements(token.children ?? [], manner);
    case "softbreak":
      return "\n";
    case "hardbreak":
      return <br />;
    case "hr":
      return <hr />;
    case "code_inline":
      return <code>{withSecrets(token.content, secrets)}</code>;
    case "code_block":
    case "fence":
      return <Code text={token.content.replace(/\n$/, "")} secrets={secrets} language={manner.isGrowing ? "" : (token.info.trim().split(/\s+/)[0] ?? "")} />;
    case "image": {
      const address = String(token.attrGet("src") ?? "");
      const to = isWhole(address) ? target(address) : undefined;
      const named = withoutSecrets(token.content) || "image";
      return to ? (
        <a class="image" href={to} rel="noopener noreferrer nofollow" target="_blank" title={visible(to)}>
          Image, not loaded: {named}
        </a>
      ) : (
        <span class="image">Image: {named}</span>
      );
    }
    default:
      return token.content ? withSecrets(token.content, secrets) : null;
  }
};

const elements = (tokens: Token[], manner: Manner): ComponentChildren[] => {
  const root: Open = { tag: null, props: {}, inside: [] };
  const open: Open[] = [root];
  for (const token of tokens) {
    const inner = open[open.length - 1] ?? root;
    if (token.nesting === 1) {
      open.push(token.hidden ? { tag: null, props: {}, inside: [] } : opened(token));
    } else if (token.nesting === -1) {
      if (open.length > 1) {
        open.pop();
        (open[open.length - 1] ?? root).inside.push(element(inner));
      }
    } else {
      inner.inside.push(leaf(token, manner));
    }
  }
  while (open.length > 1) {
    const inner = open.pop() as Open;
    (open[open.length - 1] ?? root).inside.push(element(inner));
  }
  return root.inside;
};

/** Cuts a text where nothing reaches over: before a line that begins at the margin, is no item of a list, and follows a blank one outside of code. */
export const pieces = (text: string): string[] => {
  const found: string[] = [];
  let [from, at, fence, blank] = [0, 0, "", false];
  while (at < text.length) {
    const end = text.indexOf("\n", at);
    const next = end < 0 ? text.length : end + 1;
    const line = text.slice(at, Math.min(next, at + 200));
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (!fence && blank && /^[^\s>|]/.test(line) && !/^([-*+]|\d{1,9}[.)])\s/.test(line) && !/^\[[^\]]*\]:/.test(line)) {
      found.push(text.slice(from, at));
      from = at;
    }
    if (mark && !fence) fence = mark;
    else if (mark && fence && mark[0] === fence[0] && mark.length >= fence.length) fence = "";
    blank = !fence && line.trim() === "";
    at = next;
  }
  if (from < text.length) found.push(text.slice(from));
  return found;
};

/** The lines that say what a reference leads to: they count in every piece. */
const DEFINITION = /^ {0,3}\[[^\]\n]{1,200}\]:[ \t]*\S{1,2000}.{0,300}$/gm;
const DEFINITIONS = 500;

/** The pieces of a text, with stand-ins for its secrets. */
export const cut = (text: string): { all: string[]; secrets: readonly string[]; definitions: string } => {
  const hidden = hide(text);
  const all = pieces(hidden.text);
  const definitions = all.length > 1 && hidden.text.includes("]:") ? (hidden.text.match(DEFINITION) ?? []).slice(0, DEFINITIONS).join("\n") : "";
  return { all, secrets: hidden.secrets, definitions: definitions.replaceAll(OPEN, "/") };
};

const Piece = memo(({ text, secrets, definitions, isGrowing }: { text: string; secrets: readonly string[]; definitions: string; isGrowing: boolean }) => {
  if (text.length > PIECE) return <Plain text={text} secrets={secrets} />;
  try {
    const known = {};
    if (definitions) parser.parse(definitions, known);
    const tokens = parser.parse(text, known);
    // The parser leaves out what is nested deeper than it was told.
    if (tokens.some((token) => token.level >= NESTING - 2)) return <Plain text={text} secrets={secrets} />;
    return <>{elements(tokens, { secrets, isGrowing })}</>;
  } catch {
    return <Plain text={text} secrets={secrets} />;
  }
});

const NONE: readonly string[] = [];

const Whole = ({ text, isGrowing }: { text: string; isGrowing: boolean }) => {
  const { all, secrets, definitions } = cut(text);
  // Pieces are drawn again if they are given another list, even of the same secrets.
  const before = useRef(NONE);
  if (secrets.length !== before.current.length || secrets.some((secret, index) => secret !== before.current[index])) before.current = secrets;
  const given = before.current;
  const shown = isGrowing || all.length <= PIECES ? all : all.slice(0, PIECES);
  return (
    <div class="markdown" dir="auto" lang={language(text)}>
      {shown.map((piece, index) => (
        <Piece key={index} text={piece} secrets={piece.includes(OPEN) ? given : NONE} definitions={definitions} isGrowing={isGrowing && index === shown.length - 1} />
      ))}
      {shown.length < all.length && <Plain text={all.slice(PIECES).join("")} secrets={given} />}
    </div>
  );
};

/** A text that is longer than what is looked through for secrets at once is shown as it is. */
export const Markdown = ({ text, isGrowing = false }: { text: string; isGrowing?: boolean }) => (text.length > MOST ? <Plain text={text} /> : <Whole text={text} isGrowing={isGrowing} />);
