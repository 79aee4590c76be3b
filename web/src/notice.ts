// Short words at the edge of the page: what was done, what went wrong, and a way back where there is one.
import { signal } from "@preact/signals";
import { Problem } from "./api";

export interface Notice {
  id: number;
  text: string;
  kind: "done" | "wrong";
  undo?: () => void;
}

export const notices = signal<Notice[]>([]);
let next = 1;

export const dismiss = (id: number): void => {
  notices.value = notices.value.filter((notice) => notice.id !== id);
};

const tell = (notice: Omit<Notice, "id">, ms: number): void => {
  const id = next++;
  notices.value = [...notices.value.slice(-3), { ...notice, id }];
  setTimeout(() => dismiss(id), ms);
};

export const done = (text: string, undo?: () => void): void => tell({ text, kind: "done", ...(undo ? { undo } : {}) }, undo ? 30_000 : 5000);

export const wrong = (error: unknown): void => {
  if (error instanceof DOMException && error.name === "AbortError") return;
  const text = error instanceof Error ? error.message : String(error);
  if (error instanceof Problem && error.status === 401) return;
  tell({ text, kind: "wrong" }, 10_000);
};

/** Does something and says what came of it. */
export const attempt = async <T>(work: Promise<T>, said?: string): Promise<T | undefined> => {
  try {
    const value = await work;
    if (said) done(said);
    return value;
  } catch (error) {
    wrong(error);
    return undefined;
  }
};

export const copy = (text: string, what: string): void => {
  const refused = () => wrong(new Error("The browser does not let the page copy; select it instead."));
  // Pages that came without TLS from another machine have no clipboard.
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (!clipboard) return refused();
  clipboard.writeText(text).then(() => done(`${what} was copied.`), refused);
};
