import { createConnection } from 'node:net';
import { isNetplugError, NetplugError, reasonOf } from '../../base/errors.ts';
import { type CallAnswer, encodeRequest, HELLO, readCallAnswer, type RequestKind } from './wire.ts';

/**
 * Sends a request to the agent that listens at the path, and returns its answer.
 * @throws agent/unreachable, agent/protocol, and the signal's reason
 */
export async function askAgent(
  path: string,
  { kind, stdin }: { readonly kind: RequestKind; readonly stdin: string },
  signal: AbortSignal,
): Promise<CallAnswer> {
  const request = encodeRequest({ kind, env: {}, stdin });
  const answer = readCallAnswer();
  signal.throwIfAborted();
  const socket = createConnection({ path, signal });
  let greeting: Buffer | undefined = Buffer.alloc(0);
  try {
    for await (const chunk of socket) {
      const bytes = chunk as Buffer; // without an encoding set, sockets yield buffers
      if (greeting === undefined) {
        const whole = answer.push(bytes);
        if (whole !== undefined) return whole;
        continue;
      }
      greeting = Buffer.concat([greeting, bytes]);
      if (greeting.length < HELLO.length) continue;
      if (!greeting.equals(HELLO)) throw unreachable(path, 'the program that listens there is not an agent');
      greeting = undefined;
      socket.write(request);
    }
  } catch (cause) {
    signal.throwIfAborted();
    if (isNetplugError(cause)) throw cause;
    throw unreachable(path, reasonOf(cause), cause);
  } finally {
    socket.destroy();
  }
  throw unreachable(path, 'it closed the connection without an answer');
}

function unreachable(path: string, reason: string, cause?: unknown): NetplugError {
  return new NetplugError('agent/unreachable', `Cannot ask the agent at "${path}": ${reason}`, {
    hint: 'Make sure that the agent runs on this node, and see its log',
    facts: { path },
    cause,
  });
}
