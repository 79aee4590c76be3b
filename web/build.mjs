// Builds the page: one script, one style sheet and the document that the server puts both into. The same sources give the
// same bytes, so what is checked in can be held against what is built. Where to is the first argument, or `dist`.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, "dist"));
await mkdir(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { page: "src/main.tsx" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome111", "firefox113", "safari16.4"],
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  define: { "process.env.NODE_ENV": '"production"' },
  loader: { ".css": "css" },
  logLevel: "warning",
});
// The script stands in a document, where these characters would mean something else. They are in strings and patterns only.
const script = join(out, "page.js");
await writeFile(script, (await readFile(script, "utf8")).replaceAll("<!--", "\\x3C!--"));
await copyFile(join(here, "src/page.html"), join(out, "page.html"));
