// Code with its colours. The highlighter gives a tree of names and texts, which becomes elements here: no markup is ever parsed.
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { hide, reveal } from "./mask";
import { copy } from "./notice";
import { Plain, visible, withSecrets } from "./text";

const colours = createLowlight({ bash, c, cpp, css, diff, go, ini, java, javascript, json, python, rust, sql, typescript, xml, yaml });
colours.registerAlias({ bash: ["sh", "shell", "console", "zsh"], ini: ["toml"], xml: ["html", "svg"], javascript: ["js", "jsx", "mjs"], typescript: ["ts", "tsx"] });

/** Longer code has no colours, and neither has code with longer words: grammars may take a time that grows with the square of these. */
const MOST = 20_000;
const WORD = /\S{400}/;

interface Node {
  type: string;
  value?: string;
  properties?: { className?: unknown };
  children?: Node[];
}

const coloured = (nodes: Node[], secrets: readonly string[]): ComponentChildren[] =>
  nodes.map((node) => {
    if (node.type === "text") return withSecrets(node.value ?? "", secrets);
    const names = Array.isArray(node.properties?.className) ? node.properties.className.filter((name) => /^hljs-[a-z_-]+$/.test(String(name))) : [];
    return <span class={names.join(" ")}>{coloured(node.children ?? [], secrets)}</span>;
  });

const inside = (text: string, secrets: readonly string[], language: string): ComponentChildren => {
  if (language && colours.registered(language) && !WORD.test(text)) {
    try {
      return coloured(colours.highlight(language, text).children as Node[], secrets);
    } catch {
      // It is shown without colours.
    }
  }
  return withSecrets(text, secrets);
};

/** What a block of code is made of. The text may have stand-ins for secrets. */
export interface Made {
  text: string;
  secrets?: readonly string[];
  language: string;
  /** What stands above it instead of the language. */
  title?: string;
  /** Whether all of it is there from the first moment on, however much, and no line ends beside the screen. */
  isWhole?: boolean;
}

export const Code = ({ text, secrets, language, title, isWhole = false }: Made) => {
  const [wraps, wrap] = useState(isWhole);
  const isLong = text.length > MOST;
  const hidden = secrets ? { text, secrets } : isLong && !isWhole ? { text, secrets: [] } : hide(text);
  const named = /^[A-Za-z0-9_+#.-]{1,24}$/.test(language) ? language.toLowerCase() : "";
  return (
    <figure class="code">
      <figcaption>
        <span>{title ?? (named || "text")}</span>
        <button type="button" aria-pressed={wraps} onClick={() => wrap(!wraps)}>
          Wrap
        </button>
        <button type="button" onClick={() => copy(reveal(hidden), "The code")}>
          Copy
        </button>
      </figcaption>
      {isLong && !isWhole ? (
        <Plain text={text} {...(secrets ? { secrets } : {})} label="Code" />
      ) : (
        <pre class={wraps ? "wraps" : ""} tabIndex={0} aria-label={named ? `Code, ${named}` : "Code"}>
          <code>{inside(hidden.text, hidden.secrets, isLong ? "" : named)}</code>
        </pre>
      )}
    </figure>
  );
};

const asJson = (value: unknown): string => {
  try {
    return visible(JSON.stringify(value, null, 2) ?? "null");
  } catch {
    return visible(String(value));
  }
};

/** A value as JSON, in colours. */
export const Json = ({ value }: { value: unknown }) => <Code text={asJson(value)} language="json" />;

/** What a call is given, in the order in which it is read: commands and texts with their own line breaks, and the rest as JSON. Nothing is left out. */
export const given = (input: unknown): Made[] => {
  if (typeof input !== "object" || input === null || Array.isArray(input)) return [{ text: asJson(input), language: "json" }];
  const [texts, rest]: [Made[], [string, unknown][]] = [[], []];
  for (const [name, value] of Object.entries(input)) {
    if (typeof value === "string" && name === "command") texts.push({ text: value, language: "bash" });
    else if (typeof value === "string" && value.includes("\n")) texts.push({ text: value, language: "", title: visible(name) });
    else rest.push([name, value]);
  }
  return rest.length > 0 || texts.length === 0 ? [...texts, { text: asJson(Object.fromEntries(rest)), language: "json" }] : texts;
};

export const Input = ({ value }: { value: unknown }) => (
  <>
    {given(value).map((made, index) => (
      <Code key={index} {...made} />
    ))}
  </>
);
