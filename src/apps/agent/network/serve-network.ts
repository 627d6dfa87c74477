import { isNetplugError, never, reasonOf } from '../../../base/errors.ts';
import { errorData } from '../../../base/error-data.ts';
import type { FromNetwork, ToNetwork } from '../network-channel.ts';
import type { FollowAnswer } from '../../../datastore/follow-messages.ts';
import type { NodeNetwork } from './node-network.ts';

interface ServePorts {
  readonly send: (message: FromNetwork) => void;
  readonly onMessage: (listener: (message: ToNetwork) => void) => void;
  /** Receives what the agent answers to requests of the follower. */
  readonly onFollowed: (answer: FollowAnswer) => void;
  /** Resolves when no other process runs the network of the node. */
  readonly becomeOnly: (signal: AbortSignal) => Promise<void>;
}

/** Runs the network and answers requests until the agent sends `stop`. @throws agent/address-conflict */
export async function serveNetworkProcess(
  network: NodeNetwork,
  { send, onMessage, onFollowed, becomeOnly }: ServePorts,
): Promise<void> {
  const stop = new AbortController();
  onMessage((message) => {
    if (message.kind === 'stop') stop.abort();
    else if ('part' in message || 'error' in message) onFollowed(message);
    else void answer(network, message, stop.signal).then(send);
  });
  try {
    await becomeOnly(stop.signal);
    await network.run(stop.signal);
  } catch (cause) {
    if (isNetplugError(cause, 'agent/address-conflict')) send({ kind: 'refused', error: errorData(cause) });
    if (!stop.signal.aborted) throw cause;
  } finally {
    stop.abort();
  }
}

async function answer(
  network: NodeNetwork,
  message: Exclude<ToNetwork, FollowAnswer | { readonly kind: 'stop' }>,
  signal: AbortSignal,
): Promise<FromNetwork> {
  const { id } = message;
  try {
    switch (message.kind) {
      case 'show':
        return { kind: 'show', id, network: await network.show(signal) };
      case 'status':
        return { kind: 'status', id, status: { standing: network.standing(), failures: network.failures() } };
      case 'isolate':
        return { kind: 'isolate', id, isolation: { state: 'not enforced', reason: 'this release enforces none' } };
      case 'release':
        return { kind: 'release', id };
      default:
        return never(message);
    }
  } catch (cause) {
    return { kind: 'failed', id, reason: reasonOf(cause) };
  }
}
