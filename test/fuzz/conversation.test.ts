import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { Conversation } from '../../src/apps/agent/conversation.ts';
import { type CallRequest, encodeRequest, HELLO, readRequest } from '../../src/apps/agent/wire.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { HANG_MS, SECONDS, SEED, untilClosed } from './driver.ts';
import { byteMutants } from './mutants.ts';

const REQUEST: CallRequest = { kind: 'netplug', env: { CNI_COMMAND: 'ADD' }, stdin: '{"name":"n"}' };
const bytes = byteMutants(fc.constant(encodeRequest(REQUEST)));
const scenes = fc.tuple(bytes, fc.nat({ max: 64 }), fc.boolean());
const SCENES_PER_SEED = 25;
/** For a request that never becomes whole. */
const REQUEST_MS = 50;

it(
  'a conversation serves whole requests alone, and ends whatever the caller sends',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'netplug-fuzz-'));
    const path = join(folder, 'cni.sock');
    const served: CallRequest[] = [];
    let active = 0;
    const conversations: Promise<void>[] = [];
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      const conversation = new Conversation(socket, {
        serve: async (request) => {
          served.push(request);
          return Promise.resolve({ status: 0, stdout: request.stdin, stderr: '' });
        },
        clock: systemClock,
        log: silentLog,
        hello: HELLO,
        requestMs: REQUEST_MS,
        answerMs: REQUEST_MS,
        count: (change) => {
          active += change;
        },
      });
      conversations.push(conversation.ended);
      conversation.sayHello();
    }).listen(path);
    await once(server, 'listening');
    const send = async ([sent, cut, isEnded]: [Buffer, number, boolean]): Promise<void> => {
      const socket = connect(path);
      const closed = untilClosed(socket);
      socket.write(sent.subarray(0, cut));
      if (isEnded) socket.end(sent.subarray(cut));
      else socket.write(sent.subarray(cut));
      await closed;
    };
    let count = 0;
    const endMs = performance.now() + SECONDS * 1000;
    for (let seed = Number(SEED ?? Date.now() % 2 ** 31); performance.now() < endMs; seed += 1) {
      const sample = fc.sample(scenes, { numRuns: SCENES_PER_SEED, seed });
      await Promise.all(sample.map(send));
      await Promise.all(conversations.splice(0));
      const allowed = sample.map(([sent]) => wholeOf(sent)).filter((request) => request !== undefined);
      for (const request of served.splice(0)) expect(allowed, `seed ${String(seed)}`).toContainEqual(request);
      expect(active, `seed ${String(seed)}`).toBe(0);
      count += sample.length;
    }
    expect(count).toBeGreaterThan(SCENES_PER_SEED);
    server.close();
    await once(server, 'close');
    rmSync(folder, { recursive: true, force: true });
  },
  HANG_MS,
);

/** The request that the bytes are, if they are one. */
function wholeOf(sent: Buffer): CallRequest | undefined {
  try {
    return readRequest().push(sent);
  } catch {
    return undefined;
  }
}
