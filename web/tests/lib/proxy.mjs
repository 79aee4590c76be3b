// A network that can fail: a relay of TCP connections between the browser and the server.
//
// `cut` ends all connections without a word and refuses new ones, as a network does that is gone; `heal` brings it back. `hold` leaves connections as they
// are and carries nothing any more, as a tunnel does. Two traps are for one message of the browser: it is never heard, or it is heard and nobody learns of it.

import net from 'node:net';
import { once } from 'node:events';

import { patience } from './until.mjs';

/** Where it leads is said later, with `to`: a server is told beforehand what it will be called. */
export async function proxy() {
  let goal;
  const pairs = new Set();
  let state = 'open';
  let trap;
  const relay = net.createServer((near) => {
    if (state === 'cut') return void near.resetAndDestroy();
    const far = net.connect({ host: goal.hostname, port: Number(goal.port) });
    const pair = { near, far, isDeaf: false };
    pairs.add(pair);
    const end = () => {
      pairs.delete(pair);
      near.destroy();
      // What was written is read before the end is: a destroyed socket might take it along.
      far.end();
    };
    for (const socket of [near, far]) socket.setNoDelay(true).on('error', end).on('close', end);
    near.on('data', (bytes) => {
      if (state === 'held' || pair.isDeaf) return;
      if (trap?.message.test(said(bytes))) return trap.spring(pair, bytes);
      far.write(bytes);
    });
    far.on('data', (bytes) => {
      if (state === 'open' && !near.destroyed) near.write(bytes);
    });
  });
  relay.listen(0, '127.0.0.1');
  await once(relay, 'listening');
  const drop = () => {
    for (const { near } of pairs) near.resetAndDestroy();
    pairs.clear();
  };
  const set = (message, spring) =>
    new Promise((resolve, reject) => {
      const never = setTimeout(() => reject(new Error(`nobody said ${message}`)), patience);
      trap = {
        message,
        spring(pair, bytes) {
          trap = undefined;
          clearTimeout(never);
          spring(pair, bytes);
          resolve();
        },
      };
    });
  return {
    url: `http://127.0.0.1:${relay.address().port}`,
    to(url) {
      goal = new URL(url);
    },
    connections: () => pairs.size,
    cut() {
      state = 'cut';
      drop();
    },
    hold() {
      state = 'held';
    },
    /** What was cut or held has lost bytes and cannot go on; whoever comes again gets in. */
    heal() {
      drop();
      state = 'open';
    },
    /** The network is gone when the browser says that, and nobody heard it. */
    cutBefore: (message) =>
      set(message, (pair) => {
        pair.isDeaf = true;
        state = 'cut';
        drop();
      }),
    /** When the browser has said that, it hears nothing any more: it was heard, and no answer comes back. */
    muteBehind: (message) =>
      set(message, (pair, bytes) => {
        state = 'held';
        pair.far.write(bytes);
      }),
    stop() {
      drop();
      relay.close();
    },
  };
}

/** The texts of the messages in bytes that a browser sends over a WebSocket: several may come at once. */
function said(bytes) {
  const texts = [];
  for (let from = 0; from + 6 <= bytes.length; ) {
    const isText = (bytes[from] & 0x8f) === 0x81 && (bytes[from + 1] & 0x80) !== 0;
    if (!isText) break;
    const short = bytes[from + 1] & 0x7f;
    if (short === 127) break;
    const [length, at] = short < 126 ? [short, from + 2] : [bytes.readUInt16BE(from + 2), from + 4];
    const mask = bytes.subarray(at, at + 4);
    texts.push(bytes.subarray(at + 4, at + 4 + length).map((byte, index) => byte ^ mask[index % 4]).toString('utf8'));
    from = at + 4 + length;
  }
  return texts.join('\n');
}
