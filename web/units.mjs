// Runs the tests of what needs no browser.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const place = await mkdtemp(join(tmpdir(), "units-"));
try {
  const outfile = join(place, "units.test.mjs");
  await build({ absWorkingDir: here, entryPoints: ["units/units.ts"], outfile, bundle: true, platform: "node", format: "esm", jsx: "automatic", jsxImportSource: "preact", logLevel: "warning" });
  const { status } = spawnSync(process.execPath, ["--test", outfile], { stdio: "inherit" });
  process.exitCode = status ?? 1;
} finally {
  await rm(place, { recursive: true });
}
