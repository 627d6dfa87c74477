import type { Duplex } from 'node:stream';
import { errorOf } from '../base/error-data.ts';
import { type Hello, HELLO_MESSAGE, readErrorData, STREAM_FRAME, type Welcome, WELCOME_MESSAGE } from './handshake.ts';
import { type PeerOptions, peerOver, type StreamPeer } from './peer.ts';
import { payloadJson } from './stream-frames.ts';

export interface OpenedStream {
  readonly peer: StreamPeer;
  readonly welcome: Welcome;
}

/**
 * Says hello to a server. Resolves when it has welcomed the client, from when on the listener receives frames.
 * @throws what the server refuses the client for, and store/unavailable when the connection ends or the signal aborts
 */
export async function openStream(
  stream: Duplex,
  { hello, limitBytes, clock, listener }: PeerOptions & { readonly hello: Hello },
  signal: AbortSignal,
): Promise<OpenedStream> {
  const { promise, resolve, reject } = Promise.withResolvers<Welcome>();
  let isWelcome = false;
  const peer = peerOver(stream, {
    limitBytes,
    clock,
    listener: {
      onFrame: (frame) => {
        if (isWelcome) listener.onFrame(frame);
        else if (frame.type === STREAM_FRAME.refused) throw errorOf(readErrorData(payloadJson(frame)));
        else {
          const welcome = WELCOME_MESSAGE.read(frame);
          isWelcome = true;
          resolve(welcome);
        }
      },
      onDrain: () => listener.onDrain(),
      onEnd: (cause) => {
        reject(cause ?? signal.reason);
        if (isWelcome) listener.onEnd(cause);
      },
    },
  });
  const onAbort = (): void => peer.end();
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  else peer.send(HELLO_MESSAGE.frame(hello));
  try {
    return { peer, welcome: await promise };
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
