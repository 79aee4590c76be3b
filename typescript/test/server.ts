/**
 * A real server, `unforget serve`, and one that lets nobody in.
 */

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';

import { PROGRAM, type Scene } from './scene.js';

/** Starts a server that refuses whatever token it is shown. */
export async function refusing(scene: Scene): Promise<string> {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(401, { 'content-type': 'application/json' }).end('{"error":{"code":"unauthenticated","message":"who are you?"}}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  scene.atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A server, and the token that its owner's programs send. */
export interface Server {
  url: string;
  token: string;
}

/** Starts a server that serves a home to its owner. */
export async function startServer(home: string, atEnd: (ending: () => unknown) => void): Promise<Server> {
  const child = spawn(PROGRAM, ['--json', '--home', home, 'serve', '--listen', '127.0.0.1:0', '--no-tokens', '--no-remote'], {
    env: { ...process.env, ANTHROPIC_API_KEY: 'sk-ant-offline' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const over = new Promise<void>((resolve) => child.on('close', () => resolve()));
  atEnd(async () => {
    child.kill('SIGTERM');
    await over;
  });
  for await (const line of createInterface({ input: child.stdout })) {
    child.stdout.resume();
    const { listening, token_file: file } = JSON.parse(line) as { listening: string; token_file: string };
    return { url: listening, token: readFileSync(file, 'utf8').trim() };
  }
  throw new Error('the server did not start');
}
