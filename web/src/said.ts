// What a record says, whoever wrote it: a line of ours, of the tutorials' (version 0), or of Claude Code. Nothing is believed to be of any shape; what is not
// understood is `other` and can still be looked at as it is.
import type { Rec } from "./api";
import { moment } from "./format";

export type Block =
  | { kind: "text"; text: string }
  | { kind: "thinking"; text: string }
  | { kind: "image"; source: string | null; about: string }
  | { kind: "call"; id: string; name: string; input: unknown; interrupted: boolean }
  | { kind: "result"; id: string; output: unknown; isError: boolean; ms: number | null; repair: boolean }
  | { kind: "kept"; bytes: number; preview: string; within: "user" | "assistant" | "result" }
  | { kind: "other"; type: string; value: unknown };

export type Kind = "user" | "assistant" | "call" | "result" | "compaction" | "turn" | "error" | "aside" | "session" | "silent" | "other";

export interface Said {
  kind: Kind;
  type: string;
  time: number | null;
  blocks: Block[];
  parent: number | null;
  interrupted: boolean;
}

const isObject = (value: unknown): value is Rec => typeof value === "object" && value !== null && !Array.isArray(value);
export const text = (value: unknown): string => (typeof value === "string" ? value : "");
export const number = (value: unknown): number | null => (typeof value === "number" && Number.isFinite(value) ? value : null);

/** What stands for a value that is kept beside the transcript. */
export const kept = (value: unknown): { bytes: number; preview: string } | null =>
  isObject(value) && typeof value["sha256"] === "string" && typeof value["bytes"] === "number"
    ? { bytes: value["bytes"], preview: text(value["preview"]) }
    : null;

const MEDIA = /^image\/(png|jpeg|gif|webp)$/;
const BASE64 = /^[A-Za-z0-9+/=\s]+$/;

const image = (value: Rec): Block => {
  const source = isObject(value["source"]) ? value["source"] : {};
  const [media, data] = [text(source["media_type"]), text(source["data"])];
  if (MEDIA.test(media) && data && BASE64.test(data)) return { kind: "image", source: `data:${media};base64,${data}`, about: `${media}, ${Math.round((data.length * 3) / 4 / 1024)} KiB` };
  const url = text(source["url"]);
  return { kind: "image", source: null, about: url ? `at ${url}, not loaded` : media || "of an unknown kind" };
};

const result = (value: Rec, output: unknown): Block => ({
  kind: "result",
  id: text(value["tool_use_id"]),
  output,
  isError: value["is_error"] === true,
  ms: number(value["ms"]),
  repair: value["repair"] === true,
});

const call = (value: Rec, id: unknown): Block => ({
  kind: "call",
  id: text(id),
  name: text(value["name"]) || "tool",
  input: value["input"],
  interrupted: value["interrupted"] === true,
});

const block = (value: unknown): Block => {
  if (typeof value === "string") return { kind: "text", text: value };
  if (!isObject(value)) return { kind: "other", type: typeof value, value };
  switch (value["type"]) {
    case "text":
      return { kind: "text", text: text(value["text"]) };
    case "thinking":
      return { kind: "thinking", text: text(value["thinking"]) };
    case "redacted_thinking":
      return { kind: "thinking", text: "(not told by the model's maker)" };
    case "image":
      return image(value);
    case "tool_use":
    case "server_tool_use":
      return call(value, value["id"]);
    case "tool_result":
      return result(value, value["content"]);
    default:
      return { kind: "other", type: text(value["type"]) || "unknown", value };
  }
};

export const blocks = (content: unknown, within: "user" | "assistant" | "result" = "assistant"): Block[] => {
  const away = kept(content);
  if (away) return [{ kind: "kept", ...away, within }];
  if (typeof content === "string") return [{ kind: "text", text: content }];
  if (Array.isArray(content)) return content.map(block);
  return content === undefined || content === null ? [] : [block(content)];
};

/** The text of a tool's output, as far as it is text. */
export const output = (value: unknown): Block[] => {
  if (isObject(value) && kept(value) === null && value["type"] === undefined) return [{ kind: "other", type: "JSON", value }];
  return blocks(value, "result");
};

const SILENT = new Set(["context", "approval", "pin", "trim", "undo", "served"]);
const ASIDES = new Set(["head", "label", "title", "expire", "file"]);

const kindOf = (type: string, said: Block[]): Kind => {
  if (type === "user") return said.length > 0 && said.every((one) => one.kind === "result") ? "result" : "user";
  if (type === "assistant" || type === "compaction" || type === "turn" || type === "error" || type === "session") return type;
  if (type === "tool_use") return "call";
  if (type === "tool_result") return "result";
  if (SILENT.has(type)) return "silent";
  return ASIDES.has(type) ? "aside" : "other";
};

export const said = (record: Rec): Said => {
  const type = text(record["type"]) || "unknown";
  const time = moment(record["ts"] ?? record["timestamp"]);
  const message = isObject(record["message"]) ? record["message"] : null;
  let found: Block[] = [];
  if (type === "tool_use") found = [call(record, record["tool_use_id"])];
  else if (type === "tool_result") found = [result(record, record["output"] ?? record["content"])];
  else if (type === "user" || type === "assistant") found = blocks(message ? message["content"] : record["content"], type);
  const kind = kindOf(type, found);
  return { kind, type, time, blocks: found, parent: number(record["parent"]), interrupted: record["interrupted"] === true };
};
