// The connection to a session: comes back by itself, names the last record that is here, and sends again what nobody acknowledged.
// What is heard is handed on; what it means is for `talk` to know. The protocol is docs/protocol.md.
import { signal } from "@preact/signals";
import type { components } from "./protocol";

type Messages = components["schemas"];
/** What the page says; one prompt without a connection to a session is for other programs. */
export type Spoken = Extract<Messages["client"], { type: string }>;
/** What the server says, by its type. */
export type Heard<Type extends Messages["server"]["type"] = Messages["server"]["type"]> = Extract<Messages["server"], { type: Type }>;
export type Standing = "connecting" | "open" | "lost" | "refused";

const SHORTEST = 400;
const LONGEST = 15_000;
/** How long nothing may be heard before the server is asked, and again before the connection counts as lost. */
const SILENCE = 20_000;
const PATIENCE = 8_000;

/** Who is at this end. */
export interface Side {
  /** What is said first on every connection. */
  greet: () => Spoken[];
  hear: (message: Heard) => void;
  /** What was said last cannot be said. */
  refuse: (why: string) => void;
  /** The server wants no connection; it stays so until somebody opens it again. */
  turnedAway: () => void;
}

export class Wire {
  readonly standing = signal<Standing>("connecting");
  private socket: WebSocket | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private watch: ReturnType<typeof setTimeout> | undefined;
  private attempts = 0;
  private isOver = false;
  private readonly back = (): void => {
    if (document.visibilityState === "visible" && this.standing.value === "lost") this.connect();
  };

  constructor(private readonly side: Side) {
    addEventListener("online", this.back);
    document.addEventListener("visibilitychange", this.back);
  }

  open(): void {
    this.connect();
  }

  /** Whether it was said; what was not is for `greet` to say on the next connection. */
  say(message: Spoken): boolean {
    if (this.socket?.readyState !== WebSocket.OPEN || this.standing.value !== "open") return false;
    this.socket.send(JSON.stringify(message));
    return true;
  }

  /** All is well: the next drop is the first one again. */
  calm(): void {
    this.attempts = 0;
  }

  close(): void {
    this.isOver = true;
    removeEventListener("online", this.back);
    document.removeEventListener("visibilitychange", this.back);
    clearTimeout(this.timer);
    clearTimeout(this.watch);
    this.socket?.close(1000);
    this.socket = null;
  }

  private connect(): void {
    clearTimeout(this.timer);
    if (this.isOver || this.socket) return;
    this.standing.value = this.attempts === 0 ? "connecting" : "lost";
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`);
    this.socket = socket;
    this.listen(PATIENCE);
    socket.onopen = () => {
      if (this.socket !== socket) return;
      this.standing.value = "open";
      for (const message of this.side.greet()) socket.send(JSON.stringify(message));
      this.listen(SILENCE);
    };
    socket.onmessage = (event) => {
      if (this.socket !== socket) return;
      this.listen(SILENCE);
      let message: unknown;
      try {
        message = JSON.parse(String(event.data));
      } catch {
        return;
      }
      if (typeof message === "object" && message !== null && typeof (message as Heard).type === "string") this.side.hear(message as Heard);
    };
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      // What cannot be put right by coming back is left alone.
      if (event.code === 1008) {
        this.socket = null;
        clearTimeout(this.watch);
        this.standing.value = "refused";
        this.side.turnedAway();
        return;
      }
      if (event.code === 1009) this.side.refuse("The server says that this is too large.");
      this.drop(socket);
    };
  }

  private drop(socket: WebSocket | null, wait?: number): void {
    if (this.socket !== socket || this.isOver) return;
    this.socket = null;
    clearTimeout(this.watch);
    if (socket) {
      socket.onclose = socket.onmessage = socket.onopen = null;
      socket.close();
    }
    this.standing.value = "lost";
    const longest = Math.min(LONGEST, SHORTEST * 2 ** this.attempts);
    this.attempts += 1;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), wait ?? longest * (0.5 + Math.random() / 2));
  }

  /** Takes the connection for lost if nothing is heard for too long. */
  private listen(ms: number): void {
    clearTimeout(this.watch);
    const socket = this.socket;
    this.watch = setTimeout(() => {
      if (this.socket !== socket || !socket) return;
      if (socket.readyState === WebSocket.OPEN && ms === SILENCE) {
        socket.send('{"type":"ping"}');
        this.listen(PATIENCE);
      } else {
        this.drop(socket, 0);
      }
    }, ms);
  }
}
