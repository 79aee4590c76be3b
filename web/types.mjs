// Makes the types of what goes over the wire out of the documents beside `web`, docs/openapi.json
// and docs/protocol.schema.json. They are checked in, for editors and for the tests of the
// TypeScript package. The same documents give the same bytes.
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";

const here = dirname(fileURLToPath(import.meta.url));
const read = async (name) => JSON.parse(await readFile(join(here, "../docs", name), "utf8"));

/** A pair stays one, and an object of which nothing is known has members of any type. */
const OPTIONS = { arrayLength: true, emptyObjectsUnknown: true, defaultNonNullable: false, silent: true };

const write = async (document, source, file) => {
  const head = `// Made by \`cargo xtask web\` out of docs/${source}. Not for editing.\n`;
  await writeFile(join(here, "src", file), head + astToString(await openapiTS(document, OPTIONS)));
};

const api = await read("openapi.json");
// A refusal has the shape `Problem`, whatever its status.
for (const operations of Object.values(api.paths)) {
  for (const { responses } of Object.values(operations)) {
    for (const status of Object.keys(responses)) if (!status.startsWith("2")) delete responses[status];
  }
}
api.components = { schemas: api.components.schemas };
await write(api, "openapi.json", "openapi.d.ts");

// The generator knows documents of OpenAPI, and neither `$defs` nor `then`.
const protocol = JSON.stringify((await read("protocol.schema.json")).$defs).replaceAll("#/$defs/", "#/components/schemas/");
const schemas = JSON.parse(protocol, (_, value) => (value?.then && value.else ? { oneOf: [value.then, value.else] } : value));
await write({ openapi: "3.1.0", info: { title: "protocol", version: "1" }, paths: {}, components: { schemas } }, "protocol.schema.json", "protocol.d.ts");
