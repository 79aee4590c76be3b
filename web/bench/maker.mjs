// A model's maker for measuring: it says as many words as it is asked for, each in a delta of its own, at a pace. The tests' own stand-in cuts long answers into large
// pieces, because a test does not want to wait; here the pieces are what is measured.

import http from 'node:http';
import { once } from 'node:events';

const vocabulary = ['memory', 'survives', 'restarts', 'and', 'crashes,', 'naïve', '記憶', 'or', '`code`', 'in\n\nparagraphs.', '**Bold**'];
/** Words that come within one tick, and how long a tick is. */
const tick = 5;

/** Starts it; `pace` is how many milliseconds lie between two words. */
export async function maker({ pace }) {
  const server = http.createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = JSON.parse(Buffer.concat(chunks).toString('utf8') || '{}');
    const count = asked(body);
    const usage = { input_tokens: Math.ceil(JSON.stringify(body).length / 4), output_tokens: count };
    const message = { id: `msg_${Date.now()}`, type: 'message', role: 'assistant', model: body.model, content: [], stop_reason: null, stop_sequence: null, usage };
    if (!body.stream) {
      response.setHeader('content-type', 'application/json');
      return void response.end(JSON.stringify({ ...message, content: [{ type: 'text', text: 'SUMMARY: words were said.' }], stop_reason: 'end_turn' }));
    }
    response.setHeader('content-type', 'text/event-stream');
    const say = (data) => response.write(`event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`);
    say({ type: 'message_start', message });
    say({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } });
    const begun = performance.now();
    for (let said = 0; said < count && !response.destroyed; ) {
      const due = Math.min(count, Math.floor((performance.now() - begun) / pace) + 1);
      for (; said < due; said++) say({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: `${vocabulary[said % vocabulary.length]} ` } });
      await new Promise((resolve) => setTimeout(resolve, tick));
    }
    say({ type: 'content_block_stop', index: 0 });
    say({ type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage });
    say({ type: 'message_stop' });
    response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** How many words the last `[[long:N]]` asks for; a few if there is none, as for a summary. */
function asked(body) {
  const last = JSON.stringify(body.messages?.at(-1) ?? '');
  return Number(/\[\[long:(\d+)\]\]/.exec(last)?.[1] ?? 5);
}
