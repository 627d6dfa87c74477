import { isNetplugError, never, reasonOf } from '../../../base/errors.ts';
import { errorData } from '../../../base/error-data.ts';
import type { FromNetwork, NetworkStatus, ToNetwork } from '../network-channel.ts';
import type { FollowAnswer } from '../../../datastore/follow-messages.ts';
import type { ShownNetwork } from '../../../model/shown-network.ts';
import type { SettingsFollower } from './follow-settings.ts';
import type { FlowObserver } from './flow-observer.ts';
import type { NodeNetwork } from './node-network.ts';
import type { PolicyEnforcement } from './policy-enforcement.ts';

interface ServePorts {
  readonly send: (message: FromNetwork) => void;
  readonly onMessage: (listener: (message: ToNetwork) => void) => void;
  /** Receives what the agent answers to requests of the follower. */
  readonly onFollowed: (answer: FollowAnswer) => void;
  readonly policy: Pick<PolicyEnforcement, 'isolate' | 'release' | 'failures' | 'problems' | 'run'>;
  readonly flows: Pick<FlowObserver, 'show' | 'standing' | 'run'>;
  readonly settings: Pick<SettingsFollower, 'explain' | 'problems' | 'run'>;
  /** Sends pods of the node to the agent until the signal aborts. */
  readonly relayPods: (signal: AbortSignal) => Promise<void>;
  /** Resolves when no other process runs the network of the node. */
  readonly becomeOnly: (signal: AbortSignal) => Promise<void>;
}

/** Runs the network and answers requests until the agent sends `stop`. @throws agent/address-conflict */
export async function serveNetworkProcess(
  network: NodeNetwork,
  { send, onMessage, onFollowed, becomeOnly, policy, flows, settings, relayPods }: ServePorts,
): Promise<void> {
  const stop = new AbortController();
  onMessage((message) => {
    if (message.kind === 'stop') stop.abort();
    else if ('part' in message || 'error' in message) onFollowed(message);
    else void answer({ network, policy, flows, settings }, message, stop.signal).then(send);
  });
  try {
    await becomeOnly(stop.signal);
    const parts = [network, policy, flows, settings, { run: relayPods }];
    await Promise.all(parts.map(async (part) => part.run(stop.signal)));
  } catch (cause) {
    if (isNetplugError(cause, 'agent/address-conflict')) send({ kind: 'refused', error: errorData(cause) });
    if (!stop.signal.aborted) throw cause;
  } finally {
    stop.abort();
  }
}

async function answer(
  {
    network,
    policy,
    flows,
    settings,
  }: Pick<ServePorts, 'policy' | 'flows' | 'settings'> & { readonly network: NodeNetwork },
  message: Exclude<ToNetwork, FollowAnswer | { readonly kind: 'stop' }>,
  signal: AbortSignal,
): Promise<FromNetwork> {
  const { id } = message;
  try {
    switch (message.kind) {
      case 'show':
        return { kind: 'show', id, network: await shownWith({ network, policy, settings }, signal) };
      case 'status':
        return { kind: 'status', id, status: statusWith({ network, policy, flows, settings }) };
      case 'flows':
        return { kind: 'flows', id, flows: await flows.show(message.question) };
      case 'isolate':
        return { kind: 'isolate', id, isolation: await policy.isolate(message.endpoint) };
      case 'release':
        await policy.release(message.endpoint);
        return { kind: 'release', id };
      default:
        return never(message);
    }
  } catch (cause) {
    const reason = reasonOf(cause);
    if (message.kind === 'isolate') return { kind: 'isolate', id, isolation: { state: 'closed', reason } };
    if (message.kind === 'release') return { kind: 'release', id };
    return { kind: 'failed', id, reason };
  }
}

type Parts = Pick<ServePorts, 'policy'> & { readonly network: NodeNetwork };

function statusWith({
  network,
  policy,
  flows,
  settings,
}: Parts & Pick<ServePorts, 'flows' | 'settings'>): NetworkStatus {
  const failures = policy.failures();
  const standing = network.standing();
  return {
    standing: {
      ...standing,
      problems: standing.problems + failures.length + policy.problems().length + settings.problems().length,
      flows: flows.standing(),
    },
    failures: [...network.failures(), ...failures],
  };
}

async function shownWith(
  { network, policy, settings }: Parts & Pick<ServePorts, 'settings'>,
  signal: AbortSignal,
): Promise<ShownNetwork> {
  const shown = await network.show(signal);
  const problems = [...shown.problems, ...policy.failures(), ...policy.problems(), ...settings.problems()];
  return { ...shown, settings: [...settings.explain()], problems };
}
