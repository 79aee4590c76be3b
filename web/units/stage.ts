// What a conversation needs of a browser, for tests without one: a server that answers as it is told, connections that are opened by hand, and a storage.
// @ts-nocheck: what stands in for a browser is less than one.
const storage = () => {
  const kept = new Map();
  return { getItem: (name) => kept.get(name) ?? null, setItem: (name, text) => kept.set(name, text), removeItem: (name) => kept.delete(name), clear: () => kept.clear() };
};

class Socket {
  static OPEN = 1;
  readyState = 0;
  said = [];
  constructor() {
    stage.sockets.push(this);
  }
  send(text) {
    this.said.push(JSON.parse(text));
  }
  close() {
    this.readyState = 3;
  }
  /** The server lets it in. */
  open() {
    this.readyState = 1;
    this.onopen();
  }
  /** The server says something. */
  tell(...messages) {
    for (const message of messages) this.onmessage({ data: JSON.stringify(message) });
  }
  /** The server closes it. */
  end(code) {
    this.readyState = 3;
    this.onclose({ code });
  }
}

export const stage = {
  sockets: [],
  /** What the server answers to a path: a status and a value. */
  answer: (_path) => [404, {}],
};

const place = { addEventListener: () => undefined, removeEventListener: () => undefined };
Object.assign(globalThis, place, {
  document: { ...place, visibilityState: "visible" },
  location: { protocol: "http:", host: "stage" },
  sessionStorage: storage(),
  localStorage: storage(),
  WebSocket: Socket,
  requestAnimationFrame: (draw) => setTimeout(draw, 0),
  cancelAnimationFrame: (timer) => clearTimeout(timer),
  fetch: async (path) => {
    const [status, value] = await stage.answer(String(path));
    return { ok: status < 300, status, json: async () => value };
  },
});
