// What was said in this tab and not acknowledged yet: kept until it is, so that a page that is loaded again says it again, under the same name.
import { tab } from "./store";

export interface Pending {
  client_id: string;
  text: string;
  state: "sending" | "accepted" | "refused";
  why?: string;
}

/** A name that nobody else has. Pages that came without TLS from another machine have no `randomUUID`. */
export const newId = (): string => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** What waits to be said to a session. */
export const stored = (id: string): Pending[] => {
  try {
    const found: unknown = JSON.parse(tab.read(`outbox:${id}`) ?? "[]");
    return Array.isArray(found) ? (found as Pending[]).filter((one) => typeof one?.client_id === "string" && typeof one.text === "string") : [];
  } catch {
    return [];
  }
};

/** Says whether it could be kept. */
export const store = (id: string, pending: readonly Pending[]): boolean => tab.write(`outbox:${id}`, pending.length === 0 ? "" : JSON.stringify(pending));

/** Leaves words where the next conversation with that session finds and says them. Says whether they could be kept. */
export const leave = (id: string, words: string): boolean => store(id, [...stored(id), { client_id: newId(), text: words, state: "sending" }]);
