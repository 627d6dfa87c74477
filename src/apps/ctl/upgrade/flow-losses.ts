import { NetplugError } from '../../../base/errors.ts';
import type { PodState } from '../../../kube/status/pod-state.ts';
import { type MtuChange, mtuChangeText } from '../../../upgrade/cluster/mtu-change.ts';
import { type FlowLoss, readFlowLine } from '../probe/judge-flow.ts';

/** A loss between two pods, as a line. */
export interface Loss {
  readonly kind: 'small' | 'full-size' | 'unknown';
  readonly text: string;
}

/**
 * Returns the losses of clients that have failed. Datagrams to a pod that has ended, or on a node that is not ready, are no loss of
 * the network; nor are packets that never got through since the client started. Pure.
 */
export function lossesOf(pods: readonly PodState[], readyNodes: ReadonlySet<string>): readonly Loss[] {
  const running = new Set(
    pods
      .filter(({ phase, node }) => (phase === 'ready' || phase === 'running') && readyNodes.has(node))
      .flatMap(({ addresses }) => addresses),
  );
  return pods.filter(hasLost).flatMap(({ name, node, output = '' }): readonly Loss[] => {
    // Its output is not always there to be read.
    if (!output.includes('udp://')) return [{ kind: 'unknown', text: `${node}: pod ${name} failed without a reason` }];
    return linesOf(output).flatMap(({ line, kind, address }) =>
      kind !== 'full-size-from-start' && running.has(address) ? [{ kind, text: `${node}: ${line}` }] : [],
    );
  });
}

/** Full-size packets that do not get through since the client started, which is no fault of the upgrade. Pure. */
export function unfitPaths(pod: PodState): readonly { readonly address: string; readonly text: string }[] {
  if (!hasLost(pod)) return [];
  return linesOf(pod.output ?? '').flatMap(({ kind, address, line }) =>
    kind === 'full-size-from-start' ? [{ address, text: `${pod.node}: ${line}` }] : [],
  );
}

/** Reports whether a client ended because it misses answers. */
function hasLost({ phase, exitCode }: PodState): boolean {
  return phase === 'failed' && exitCode === 1;
}

function linesOf(output: string): readonly (FlowLoss & { readonly line: string })[] {
  return output.split('\n').flatMap((text) => {
    const found = readFlowLine(text);
    return found === undefined ? [] : [{ ...found, line: text.trim() }];
  });
}

const GO_ON = 'run the command again to go on, or go back with "netplugctl upgrade rollback"';
const BY_SIZE =
  'Compare the MTU of pods, tunnels and uplinks on these nodes with "ip -d link", and look for a changed encapsulation of pools or a changed "calicoNetwork.mtu"; pods take another MTU when they are replaced';

/** Returns the error for the losses, which names the MTU when full-size packets alone are lost. Pure. */
export function packetsLost(losses: readonly Loss[]): NetplugError {
  const texts = losses.map(({ text }) => text);
  const isBySize = losses.every(({ kind }) => kind === 'full-size');
  const what = isBySize
    ? 'Full-size packets between pods were lost, while small ones arrived'
    : 'Packets between pods were lost';
  const advice = isBySize ? BY_SIZE : 'Look at the log of the agents of these nodes from that time';
  return new NetplugError('upgrade/packets-lost', `${what}:\n  ${texts.join('\n  ')}`, {
    hint: `${advice}; ${GO_ON}`,
    facts: { losses: texts },
  });
}

/** Returns the error with what the upgrade does to the MTU of pods on purpose. Pure. */
export function withMtuChange(lost: NetplugError, change: MtuChange | undefined): NetplugError {
  if (change === undefined) return lost;
  const { code, hint, facts } = lost;
  const message = `${lost.message}\n  ${mtuChangeText(change)}`;
  return new NetplugError(code, message, {
    ...(hint === undefined ? {} : { hint }),
    facts,
    cause: lost,
  });
}
