import { never, reasonOf } from '../../../base/errors.ts';
import { given } from '../../../base/given.ts';
import type { FromNetwork, NetworkStatus, ToNetwork } from '../network-channel.ts';
import type { FollowAnswer } from '../../../datastore/follow-messages.ts';
import { asNodeProblems } from '../../../model/node-report.ts';
import type { ShownNetwork } from '../../../model/shown-network.ts';
import type { SettingsFollower } from './policy/follow-settings.ts';
import { threadFailures, type ThreadPoolWatch } from '../../../runtime/thread-pool-watch.ts';
import { type FanOutSource, fanOutGauges, shownFanOut } from './fan-out-standing.ts';
import type { TableFollower } from './follow-tables.ts';
import type { FlowObserver } from './flows/flow-observer.ts';
import type { RateBounder } from './host/bound-rates.ts';
import type { HostInspector } from './host/inspect-host.ts';
import type { OverruledRoutes } from './host/overruled-routes.ts';
import type { AttachmentWatch } from './host/attachment-watch.ts';
import type { PodLinkFollower } from './host/follow-pod-links.ts';
import type { NodeNetwork } from './node-network.ts';
import type { ShownParts } from './shown-network.ts';
import type { PolicyEnforcement } from './policy/policy-enforcement.ts';
import type { ShownSidecar, SidecarServer } from './sidecars/serve-sidecars.ts';

/** The kinds of problems besides those of the network. */
const PROBLEMS = {
  threads: {
    code: 'network/threads',
    severity: 'error',
    remedy: 'Look for a file system or name server that does not answer; the process is started again after 2 minutes',
  },
  enforcement: { code: 'policy/not-current', severity: 'error' },
  late: {
    code: 'policy/late',
    severity: 'warning',
    remedy:
      'Give the agent more CPU, or make what is named smaller: larger networks, and ranges of ports, are fewer entries. Until then the policies before the changes are in force',
  },
  policies: {
    code: 'policy/records',
    severity: 'warning',
    remedy: 'Correct the policy; "netplugctl policy lint" checks all of them',
  },
  podInterfaces: { code: 'policy/interfaces', severity: 'error' },
  otherInterfaces: {
    code: 'policy/other-interfaces',
    severity: 'warning',
    remedy: 'Set NETPLUG_INTERFACE_PREFIX to what the interfaces of pods alone begin with',
  },
  rates: {
    code: 'network/rate-limits',
    severity: 'warning',
    remedy: 'Annotate the pod with orch/ingress-bandwidth and orch/egress-bandwidth in place of kubernetes.io/…',
  },
  sidecars: { code: 'sidecars', severity: 'warning' },
  settings: { code: 'settings/records', severity: 'warning', remedy: 'Correct the AgentConfiguration that is named' },
} as const;

/** Network that the process runs besides policies. */
type ServedNetwork = Pick<NodeNetwork, 'failures' | 'disconnections' | 'problems' | 'show' | 'standing' | 'run'>;

interface ServePorts {
  readonly send: (message: FromNetwork) => void;
  readonly onMessage: (listener: (message: ToNetwork) => void) => void;
  /** Receives what the agent answers to requests of the follower. */
  readonly onFollowed: (answer: FollowAnswer) => void;
  /** Called when this machine has the name of the node. */
  readonly onNamed: () => void;
  readonly policy: Pick<
    PolicyEnforcement,
    'isolate' | 'release' | 'failures' | 'problems' | 'late' | 'lagMs' | 'closedPolicies' | 'run'
  >;
  readonly flows: Pick<FlowObserver, 'show' | 'standing' | 'run'>;
  readonly settings: Pick<SettingsFollower, 'explain' | 'problems' | 'run'>;
  /** The interfaces of pods that another plugin connects. Policies wait until they have been read. */
  readonly podLinks: Pick<PodLinkFollower, 'read' | 'failures' | 'problems' | 'run'>;
  /** The limits of the rates of netplug's pods. */
  readonly rates: Pick<RateBounder, 'problems' | 'run'>;
  /** Whether packets take the routes of netplug. */
  readonly overruled: Pick<OverruledRoutes, 'problems' | 'run'>;
  /** The tables of nftables, as other programs change them. */
  readonly tables: Pick<TableFollower, 'problems' | 'run'>;
  /** What other programs do to the host. */
  readonly host: Pick<HostInspector, 'problems' | 'run'>;
  readonly attachments: Pick<AttachmentWatch, 'problems' | 'readKept' | 'run'>;
  readonly threads: Pick<ThreadPoolWatch, 'stuckMs'>;
  /** The sidecars of pods, which judge requests. */
  readonly sidecars: Pick<SidecarServer, 'show' | 'problems' | 'standing' | 'run'>;
  /** What comes through netplug-typha; undefined where nothing does. */
  readonly fanOut: FanOutSource | undefined;
  /** Sends pods and endpoints of the node to the agent until the signal aborts. */
  readonly relayOwn: (signal: AbortSignal) => Promise<void>;
  /** Follows the servers of the datastore until the signal aborts. */
  readonly findServers: (signal: AbortSignal) => Promise<void>;
  /** Resolves when no other process runs the network of the node. */
  readonly becomeOnly: (signal: AbortSignal) => Promise<void>;
}

/** Runs the network and answers requests until the agent sends `stop`. */
export async function serveNetworkProcess(network: ServedNetwork, ports: ServePorts): Promise<void> {
  const { send, onMessage, onFollowed, becomeOnly, policy, flows, settings } = ports;
  const { podLinks, rates, overruled, attachments, sidecars, tables, host, relayOwn, findServers } = ports;
  const stop = new AbortController();
  onMessage((message) => {
    if (message.kind === 'stop') stop.abort();
    else if (message.kind === 'named') ports.onNamed();
    else if ('part' in message || 'error' in message) onFollowed(message);
    else void answer({ ...ports, network }, message, stop.signal).then(send);
  });
  try {
    await becomeOnly(stop.signal);
    const runPolicy = async (signal: AbortSignal): Promise<void> => {
      await podLinks.read(signal);
      await Promise.all([policy.run(signal), sidecars.run(signal)]);
    };
    const others = [{ run: runPolicy }, { run: relayOwn }, { run: findServers }];
    const parts = [network, podLinks, rates, overruled, attachments, flows, settings, tables, host, ...others];
    await Promise.all(parts.map(async (part) => part.run(stop.signal)));
  } catch (cause) {
    if (!stop.signal.aborted) throw cause;
  } finally {
    stop.abort();
  }
}

type Parts = Omit<ServePorts, 'send' | 'onMessage' | 'onFollowed' | 'onNamed'> & { readonly network: ServedNetwork };

async function answer(
  parts: Parts,
  message: Exclude<ToNetwork, FollowAnswer | { readonly kind: 'stop' | 'named' }>,
  signal: AbortSignal,
): Promise<FromNetwork> {
  const { policy, flows } = parts;
  const { id } = message;
  try {
    switch (message.kind) {
      case 'show':
        return { kind: 'show', id, network: await shownWith(parts, signal) };
      case 'status':
        // What a call has just kept is shown at once.
        await parts.attachments.readKept();
        return { kind: 'status', id, status: statusWith(parts) };
      case 'flows':
        return { kind: 'flows', id, flows: await flows.show(message.question) };
      case 'isolate':
        return { kind: 'isolate', id, isolation: await policy.isolate(message.endpoint, message) };
      case 'release':
        return { kind: 'release', id, isReleased: await policy.release(message.endpoint) };
      default:
        return never(message);
    }
  } catch (cause) {
    const reason = reasonOf(cause);
    if (message.kind === 'isolate') return { kind: 'isolate', id, isolation: { state: 'closed', reason } };
    if (message.kind === 'release') return { kind: 'release', id, isReleased: false };
    return { kind: 'failed', id, reason };
  }
}

/** The record of what is shown has lists of its own. */
function shownSidecar({ ports, problems, ...rest }: ShownSidecar): NonNullable<ShownNetwork['sidecars']>[number] {
  return { ...rest, ports: [...ports], problems: [...problems] };
}

function statusWith(parts: Parts): NetworkStatus {
  const { network, policy, flows, settings, podLinks, rates, attachments, tables, host, threads, fanOut, sidecars } =
    parts;
  const failures = [...policy.failures(), ...podLinks.failures()];
  return {
    standing: {
      ...network.standing(),
      closedPolicies: policy.closedPolicies,
      policyLagSeconds: policy.lagMs / 1000,
      ...(fanOut === undefined ? {} : { fanOut: fanOutGauges(fanOut) }),
      sidecars: sidecars.standing(),
      flows: flows.standing(),
    },
    failures: [...network.failures(), ...failures, ...threadFailures(threads)],
    ...given({ disconnections: network.disconnections() }),
    problems: [
      network.problems(),
      asNodeProblems(PROBLEMS.threads, threadFailures(threads)),
      asNodeProblems(PROBLEMS.enforcement, policy.failures()),
      asNodeProblems(PROBLEMS.late, policy.late()),
      asNodeProblems(PROBLEMS.podInterfaces, podLinks.failures()),
      asNodeProblems(PROBLEMS.policies, policy.problems()),
      asNodeProblems(PROBLEMS.otherInterfaces, podLinks.problems()),
      asNodeProblems(PROBLEMS.rates, rates.problems()),
      parts.overruled.problems(),
      tables.problems(),
      host.problems(),
      attachments.problems(),
      asNodeProblems(PROBLEMS.sidecars, sidecars.problems()),
      asNodeProblems(PROBLEMS.settings, settings.problems()),
    ].flat(),
    threadsStuckMs: threads.stuckMs(),
  };
}

async function shownWith(parts: Parts, signal: AbortSignal): Promise<ShownParts> {
  const { network, settings, fanOut, sidecars } = parts;
  const shown = await network.show(signal);
  const ofPods = sidecars.show();
  const more = {
    ...(fanOut === undefined ? {} : { fanOut: shownFanOut(fanOut) }),
    ...(ofPods.length === 0 ? {} : { sidecars: ofPods.map(shownSidecar) }),
  };
  return { ...shown, ...more, settings: [...settings.explain()] };
}
