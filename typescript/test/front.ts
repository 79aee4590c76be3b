/**
 * A server that stands in front of the real program, and fails when a test wants it to.
 *
 * It takes what `POST /v1/entries/<operation>` takes, and has a child process do it.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';

import { PROGRAM, type Scene } from './scene.js';

/** What happens to a request instead of an answer. */
export type Fault = 'cut before' | 'cut after' | 'too many' | 'unavailable' | 'unavailable after' | 'proxy' | 'bad gateway';

/** A request that came. */
export interface Came {
  readonly path: string;
  readonly bytes: number;
  readonly authorization: string | undefined;
}

/** The server. */
export class Front {
  readonly came: Came[] = [];
  /** What happens to the next requests whose path ends like this, once each. */
  readonly faults: { path: string; fault: Fault; spared?: number }[] = [];
  readonly #waiting = new Map<number, (line: string) => void>();
  readonly #child: ChildProcess;
  readonly #server: Server;
  #last = 0;

  private constructor(home: string) {
    this.#child = spawn(PROGRAM, ['store', '--stdio', '--home', home], { stdio: ['pipe', 'pipe', 'inherit'] });
    createInterface({ input: this.#child.stdout ?? process.stdin }).on('line', (line) => {
      const { id } = JSON.parse(line) as { id: number };
      this.#waiting.get(id)?.(line);
    });
    this.#server = createServer((request, response) => {
      const pieces: Buffer[] = [];
      request.on('data', (piece: Buffer) => pieces.push(piece));
      request.on('end', () => {
        const body = Buffer.concat(pieces);
        const path = request.url ?? '';
        this.came.push({ path, bytes: body.length, authorization: request.headers.authorization });
        const fault = this.#next(path);
        const say = (status: number, text: string): void => {
          response.writeHead(status, { 'content-type': 'application/json' }).end(text);
        };
        if (fault === 'cut before') {
          request.socket.destroy();
        } else if (fault === 'too many') {
          say(429, '{"error":{"code":"too_many","message":"slower"}}');
        } else if (fault === 'unavailable') {
          say(503, '{"error":{"code":"unavailable","message":"later"}}');
        } else if (fault === 'proxy') {
          say(503, '<html>nobody is there</html>');
        } else {
          void this.#ask(path.split('/').at(-1) ?? '', body.toString()).then((answer) => {
            if (fault === 'cut after') {
              request.socket.destroy();
            } else if (fault === 'unavailable after') {
              say(503, '{"error":{"code":"unavailable","message":"stopping"}}');
            } else if (fault === 'bad gateway') {
              say(502, '<html>nobody answered</html>');
            } else if (answer.err !== undefined) {
              say(answer.code === 'invalid' ? 400 : 500, JSON.stringify({ error: { code: answer.code, message: answer.err } }));
            } else {
              say(200, JSON.stringify({ ok: answer.ok }));
            }
          });
        }
      });
    });
  }

  static async start(scene: Scene): Promise<Front> {
    const front = new Front(`${scene.folder}/front`);
    await new Promise<void>((resolve) => front.#server.listen(0, '127.0.0.1', resolve));
    scene.atEnd(() => {
      front.#server.closeAllConnections();
      front.#server.close();
      front.#child.kill('SIGKILL');
    });
    return front;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  #next(path: string): Fault | undefined {
    const at = this.faults.findIndex((it) => path.endsWith(it.path));
    const planned = this.faults[at];
    if (planned?.spared !== undefined && planned.spared > 0) {
      planned.spared -= 1;
      return undefined;
    }
    return at < 0 ? undefined : this.faults.splice(at, 1)[0]?.fault;
  }

  async #ask(op: string, body: string): Promise<{ ok?: unknown; err?: string; code?: string }> {
    this.#last += 1;
    const id = this.#last;
    const line = await new Promise<string>((resolve) => {
      this.#waiting.set(id, resolve);
      this.#child.stdin?.write(`${JSON.stringify({ id, op, ...(JSON.parse(body) as object) })}\n`);
    });
    return JSON.parse(line) as { ok?: unknown; err?: string; code?: string };
  }
}
