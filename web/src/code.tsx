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

/** A block of code. The text may have stand-ins for secrets. */
export const Code = ({ text, secrets, language }: { text: string; secrets?: readonly string[]; language: string }) => {
  const [wraps, wrap] = useState(false);
  const isLong = text.length > MOST;
  const hidden = secrets ? { text, secrets } : isLong ? { text, secrets: [] } : hide(text);
  const named = /^[A-Za-z0-9_+#.-]{1,24}$/.test(language) ? language.toLowerCase() : "";
  return (
    <figure class="code">
      <figcaption>
        <span>{named || "text"}</span>
        <button type="button" aria-pressed={wraps} onClick={() => wrap(!wraps)}>
          Wrap
        </button>
        <button type="button" onClick={() => copy(reveal(hidden), "The code")}>
          Copy
        </button>
      </figcaption>
      {isLong ? (
        <Plain text={reveal(hidden)} label="Code" />
      ) : (
        <pre class={wraps ? "wraps" : ""} tabIndex={0} aria-label={named ? `Code, ${named}` : "Code"}>
          <code>{inside(hidden.text, hidden.secrets, named)}</code>
        </pre>
      )}
    </figure>
  );
};

/** A value as JSON, in colours. */
export const Json = ({ value }: { value: unknown }) => {
  let text: string;
  try {
    text = JSON.stringify(value, null, 2) ?? "null";
  } catch {
    text = String(value);
  }
  return <Code text={visible(text)} language="json" />;
};
