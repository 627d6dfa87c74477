import { setImmediate as nextTurn } from 'node:timers/promises';
import { encodeMessage, type Message } from './netlink.ts';

/** Bytes that are encoded before other work may run: some milliseconds. */
const BYTES_AT_ONCE = 100_000;

/**
 * Encodes the messages with numbers from `first` on. Other work of the process can run in between: the elements of large sets
 * are encoded here.
 */
export async function encodeInTurn(messages: readonly Message[], first: number): Promise<Buffer> {
  const encoded: Buffer[] = [];
  let bytes = 0;
  for (const [index, message] of messages.entries()) {
    const one = encodeMessage(message, first + index);
    encoded.push(one);
    bytes += one.length;
    if (bytes < BYTES_AT_ONCE) continue;
    bytes = 0;
    await nextTurn();
  }
  return Buffer.concat(encoded);
}
