/**
 * Options that plain JavaScript would let pass: no store is opened elsewhere than its user believes.
 */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { describe, test } from 'node:test';

import { type PlaceOptions, Sessions, UnforgetSessionStore } from 'unforget';

import { PROGRAM, Scene } from './scene.js';

/** As plain JavaScript calls it. */
function refuses(options: unknown, message: RegExp): void {
  for (const Kind of [UnforgetSessionStore, Sessions]) {
    assert.throws(() => new Kind(options as PlaceOptions), { name: 'UnforgetError', code: 'invalid', message });
  }
}

describe('options', () => {
  test('P6: a token without the address of a server is refused', () => {
    refuses({ token: 'uft_x' }, /`token` is for a server: give its `url`/);
    // As with a variable that is not set.
    refuses({ url: undefined, token: 'uft_x' }, /`token` is for a server: give its `url`/);
    refuses({ url: '', token: 'uft_x' }, /`url` is empty/);
  });

  test('P6: unknown options are refused and named', () => {
    refuses({ hme: './x' }, /unknown option `hme`; there are `home`, .*`url`/);
    refuses({ URL: 'http://127.0.0.1:1', token: 'uft_x' }, /unknown option `URL`/);
    refuses({ url: 'http://127.0.0.1:1', tokn: undefined }, /unknown option `tokn`/);
    assert.throws(() => new Sessions({ project: 'x' } as PlaceOptions), { code: 'invalid', message: /unknown option `project`/ });
    refuses(null, /the options are an object, not null/);
    refuses('./conversations', /the options are an object, not string/);
  });

  test('P9: a value that is none is refused, and nothing is written into the working directory', (context) => {
    const scene = new Scene(context);
    const before = process.cwd();
    process.chdir(scene.folder);
    try {
      for (const name of ['home', 'remote', 'tenant', 'binary']) {
        refuses({ binary: PROGRAM, [name]: '' }, new RegExp(`\`${name}\` is empty`));
        refuses({ binary: PROGRAM, [name]: 7 }, new RegExp(`\`${name}\` is a text, not number`));
        refuses({ binary: PROGRAM, [name]: Buffer.from('x') }, new RegExp(`\`${name}\` is a text, not object`));
        refuses({ binary: PROGRAM, [name]: null }, new RegExp(`\`${name}\` is a text, not null`));
        refuses({ binary: PROGRAM, [name]: 'a\0b' }, /NUL character/);
      }
      refuses({ binary: PROGRAM, ack: 'local' }, /`ack` is 'disk' or 'remote'/);
      refuses({ binary: PROGRAM, log: 'x' }, /`log` is a function/);
      assert.deepEqual(readdirSync(scene.folder), []);
    } finally {
      process.chdir(before);
    }
  });
});
