/**
 * Where the program is, and how it is told to be a store.
 */

import { execFile } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';

import type { Command } from './child.js';
import { UnforgetError } from './errors.js';

/** Which store. */
export interface StoreOptions {
  readonly home?: string | undefined;
  readonly remote?: string | false | undefined;
  readonly tenant?: string | undefined;
  readonly ack?: 'disk' | 'remote' | undefined;
  readonly binary?: string | undefined;
}

/** How long a program may take to say its version. */
const VERSION_MS = 30_000;
const NAME = process.platform === 'win32' ? 'unforget.exe' : 'unforget';

/** How to start the program as a store. */
export function commandOf(options: StoreOptions): Command {
  const { home, remote, tenant, ack, binary } = options;
  const environment: Record<string, string> = {};
  // Not among the arguments, which everybody on this machine can see: an address may hold a password.
  if (remote !== undefined && remote !== false) {
    environment['UNFORGET_REMOTE'] = remote;
  }
  if (tenant !== undefined) {
    environment['UNFORGET_TENANT'] = tenant;
  }
  const given = [
    ...(home === undefined ? [] : [`--home=${home}`]),
    ...(ack === undefined ? [] : ['--ack', ack]),
    ...(remote === false ? ['--no-remote'] : []),
  ];
  return { program: findProgram(binary), arguments: ['store', '--stdio', ...given], environment };
}

/**
 * Finds the program: the one that is named, or else that in `UNFORGET_BIN`, or else `unforget` in `PATH`.
 *
 * @throws UnforgetError with the code `missing_program`, and words that say what to do
 */
export function findProgram(named?: string): string {
  if (named !== undefined) {
    return check(named, 'the option `binary`');
  }
  const ofEnvironment = process.env['UNFORGET_BIN'];
  if (ofEnvironment !== undefined && ofEnvironment !== '') {
    return check(ofEnvironment, 'UNFORGET_BIN');
  }
  const found = search(NAME);
  if (found === undefined) {
    throw new UnforgetError(
      'missing_program',
      `the program \`${NAME}\` is not in PATH: install it, or say where it is with the option \`binary\` or the variable UNFORGET_BIN`,
    );
  }
  return found;
}

/** Whether a program says that it is another one than `unforget`; one that cannot be asked now says nothing. */
export function isAnother(program: string): Promise<boolean> {
  return new Promise((answer) => {
    const options = { timeout: VERSION_MS, killSignal: 'SIGKILL', windowsHide: true } as const;
    execFile(program, ['--version'], options, (error, said) => {
      const isUnasked = error !== null && (typeof error.code === 'string' || error.killed === true);
      answer(!isUnasked && !said.startsWith('unforget '));
    }).stdin?.end();
  });
}

function check(path: string, source: string): string {
  const found = /[\\/]/.test(path) ? (isProgram(path) ? resolve(path) : undefined) : search(path);
  if (found === undefined) {
    throw new UnforgetError('missing_program', `${source} says that the program is ${path}, and there is none`);
  }
  return found;
}

function search(name: string): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  return folders.map((folder) => join(folder, name)).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
