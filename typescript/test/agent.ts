/**
 * The real Claude Agent SDK with its real program, offline: a server of our own answers in the model's place.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { type Options, query } from '@anthropic-ai/claude-agent-sdk';

import type { Scene } from './scene.js';

const FAKE_API = process.env['UNFORGET_FAKE_API'];

/** Why these tests cannot be run, if they cannot. */
export const cannotRun = missing();

function missing(): string | false {
  if (FAKE_API === undefined || FAKE_API === '') {
    return 'SKIPPED: UNFORGET_FAKE_API does not say where the server is that answers in the model\'s place';
  }
  // Not a part of this package, and under a licence of its own: npm installs it for the usual systems only.
  const name = `@anthropic-ai/claude-agent-sdk-${process.platform}-${process.arch}/package.json`;
  try {
    createRequire(import.meta.url).resolve(name);
    return false;
  } catch {
    return `SKIPPED: ${name} is not installed`;
  }
}

/** A server that answers: what it is asked with `[[recall]]` it answers with every prompt that it was sent. */
export class Model {
  readonly #child: ChildProcess;
  readonly url: string;

  private constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
  }

  static async start(): Promise<Model> {
    const child = spawn(FAKE_API ?? '', [], { stdio: ['ignore', 'pipe', 'ignore'] });
    for await (const line of createInterface({ input: child.stdout })) {
      child.stdout.resume();
      return new Model(child, line.trim());
    }
    throw new Error('the server did not start');
  }

  stop(): void {
    this.#child.kill();
  }

  /** The variables of a machine that knows nothing but this server. */
  environment(scene: Scene, machine: string): Record<string, string> {
    const home = join(scene.folder, machine);
    mkdirSync(home, { recursive: true });
    return {
      PATH: process.env['PATH'] ?? '',
      HOME: home,
      CLAUDE_CONFIG_DIR: join(home, 'claude'),
      ANTHROPIC_BASE_URL: this.url,
      ANTHROPIC_API_KEY: 'sk-ant-offline',
      DISABLE_TELEMETRY: '1',
      DISABLE_AUTOUPDATER: '1',
      DISABLE_ERROR_REPORTING: '1',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    };
  }
}

/** What came of a prompt. */
export interface Answered {
  readonly sessionId: string;
  readonly text: string;
}

/** Asks, and fails if anything went wrong, also if the store was not told everything. */
export async function ask(prompt: string, options: Options): Promise<Answered> {
  let answered: Answered | undefined;
  for await (const message of query({ prompt, options: { allowedTools: ['Bash', 'Read', 'Agent', 'Task'], ...options } })) {
    if (message.type === 'result') {
      if (message.subtype !== 'success' || message.is_error) {
        throw new Error(JSON.stringify(message));
      }
      answered = { sessionId: message.session_id, text: message.result };
    } else if (message.type === 'system' && (message.subtype as string) === 'mirror_error') {
      throw new Error(JSON.stringify(message));
    }
  }
  if (answered === undefined) {
    throw new Error('no answer');
  }
  return answered;
}
