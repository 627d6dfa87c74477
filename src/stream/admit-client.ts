import type { Duplex } from 'node:stream';
import type { Clock } from '../base/clock.ts';
import { timeLimit } from '../base/clock.ts';
import { errorData } from '../base/error-data.ts';
import { NetplugError, toNetplugError } from '../base/errors.ts';
import type { NodeName } from '../model/names.ts';
import {
  commonFormat,
  type Formats,
  type Hello,
  HELLO_MESSAGE,
  HELLO_BYTES,
  STREAM_FRAME,
  WELCOME_MESSAGE,
} from './handshake.ts';
import { type StreamPeer, type PeerListener, peerOver } from './peer.ts';
import { jsonFrame, protocolError, type StreamFrame } from './stream-frames.ts';

/** A client that has proved who it is. */
export interface AdmittedClient {
  readonly node: NodeName;
  readonly release: string;
  readonly format: number;
  /** What its program says of itself. */
  readonly about: unknown;
}

export interface AdmissionPorts {
  readonly clock: Clock;
  readonly server: string;
  readonly release: string;
  readonly formats: Formats;
  /** Returns the node that the token proves. @throws stream/identity-refused, store/unavailable */
  readonly identify: (token: string, signal: AbortSignal) => Promise<NodeName>;
  /** Takes a client, and returns what receives its frames. What it throws is the reason why the client is refused. */
  readonly admit: (client: AdmittedClient, peer: StreamPeer) => PeerListener;
  /** Longest payload of a client that was admitted. */
  readonly limitBytes: number;
}

/** Time for a client to say who it is, TLS not included. */
const HELLO_MS = 10_000;

/**
 * Lets a client say who it is, and admits or refuses it. Resolves when either is done, or the client is gone. Until then the
 * client may send one frame of 16 KiB. `hurry` ends one that has said nothing yet.
 */
export async function admitClient(
  stream: Duplex,
  ports: AdmissionPorts,
  hurry?: AbortSignal,
): Promise<'admitted' | 'refused' | 'gone'> {
  using limit = timeLimit(HELLO_MS);
  const gone = new AbortController();
  const greeting = Promise.withResolvers<StreamFrame>();
  greeting.promise.catch(() => undefined);
  let isGreeted = false;
  let admitted: PeerListener | undefined;
  const peer = peerOver(stream, {
    limitBytes: HELLO_BYTES,
    clock: ports.clock,
    listener: {
      onFrame: (frame) => {
        if (admitted !== undefined) admitted.onFrame(frame);
        else if (isGreeted) throw protocolError('a client goes on before it was welcomed');
        else greeting.resolve(frame);
        isGreeted = true;
      },
      onDrain: () => admitted?.onDrain(),
      onEnd: (cause) => {
        gone.abort();
        greeting.reject(cause);
        admitted?.onEnd(cause);
      },
    },
  });
  const either = AbortSignal.any([gone.signal, limit.signal]);
  either.addEventListener('abort', () => greeting.reject(either.reason), { once: true });
  hurry?.addEventListener('abort', () => greeting.reject(hurry.reason), { once: true });
  if (hurry?.aborted === true) greeting.reject(hurry.reason);
  try {
    const client = await identified(HELLO_MESSAGE.read(await greeting.promise), ports, either);
    if (gone.signal.aborted) return 'gone';
    admitted = ports.admit(client, peer);
    peer.accept(ports.limitBytes);
    peer.send(WELCOME_MESSAGE.frame({ server: ports.server, release: ports.release, format: client.format }));
    return 'admitted';
  } catch (cause) {
    if (gone.signal.aborted) return 'gone';
    if (limit.signal.aborted || !isGreeted) peer.end();
    else peer.end(jsonFrame(STREAM_FRAME.refused, errorData(toNetplugError(cause))));
    return 'refused';
  }
}

async function identified(
  { token, release, formats, about }: Hello,
  { identify, formats: own, release: ownRelease }: AdmissionPorts,
  signal: AbortSignal,
): Promise<AdmittedClient> {
  const format = commonFormat(own, formats);
  if (format === undefined)
    throw new NetplugError(
      'stream/format-unsupported',
      `Cannot serve a client of release ${release}: it has no format in common with ${ownRelease}`,
      { hint: 'Finish the upgrade, so that both are of the same release', facts: { release, server: ownRelease } },
    );
  return { node: await identify(token, signal), release, format, about };
}
