/**
 * Checks options before anything is opened.
 *
 * The compiler refuses a misspelled option; plain JavaScript would ignore it, and the store would write elsewhere than its user believes. An empty text is
 * refused as well: it often comes from a variable that is not set, and an empty `home` would be the working directory.
 */

import { UnforgetError } from './errors.js';

const LOCAL = ['home', 'remote', 'tenant', 'ack', 'binary', 'log'] as const;
const SERVER = ['url', 'token'] as const;

/**
 * Refuses options that are unknown, contradict each other, or have no usable value.
 *
 * @param own - the options that a class takes besides where the store is
 */
export function checkOptions(options: unknown, own: readonly string[] = []): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw invalid(`the options are an object, not ${options === null ? 'null' : typeof options}`);
  }
  const known: readonly string[] = [...LOCAL, ...SERVER, ...own];
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const unknown = Object.keys(options).filter((name) => !known.includes(name));
  if (unknown.length > 0) {
    throw invalid(`unknown option ${unknown.map((name) => `\`${name}\``).join(', ')}; there are ${known.map((name) => `\`${name}\``).join(', ')}`);
  }
  for (const [name, value] of given) {
    checkValue(name, value);
  }
  const names = given.map(([name]) => name);
  const misplaced = names.includes('url') ? names.find((name) => (LOCAL as readonly string[]).includes(name)) : undefined;
  if (misplaced !== undefined) {
    throw invalid(`\`${misplaced}\` is for a store on this machine, and \`url\` for a server`);
  }
  if (names.includes('token') && !names.includes('url')) {
    throw invalid('`token` is for a server: give its `url`, too');
  }
}

function checkValue(name: string, value: unknown): void {
  if (name === 'log') {
    if (typeof value !== 'function') {
      throw invalid(`\`log\` is a function, not ${typeof value}`);
    }
  } else if (name === 'remote' && value === false) {
    return;
  } else if (typeof value !== 'string') {
    throw invalid(`\`${name}\` is a text, not ${value === null ? 'null' : typeof value}`);
  } else if (value === '') {
    throw invalid(`\`${name}\` is empty: leave it out, or say what it is`);
  } else if (value.includes('\0')) {
    throw invalid(`\`${name}\` contains a NUL character`);
  } else if (name === 'ack' && value !== 'disk' && value !== 'remote') {
    throw invalid("`ack` is 'disk' or 'remote'");
  }
}

function invalid(message: string): UnforgetError {
  return new UnforgetError('invalid', message);
}
