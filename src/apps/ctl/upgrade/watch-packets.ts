import { NetplugError } from '../../../base/errors.ts';
import { FLOW_PODS, flowClientPod, flowServerPod, type ProbeImage } from '../../../install/cluster/probe-objects.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import { type PodRun, type PodState, podStateOf, removePodsNamed, runPods, SYSTEM_PODS } from '../cluster/node-pods.ts';

/** Through more nodes, the pods themselves would be a load. */
const MOST_NODES = 100;
const POLL_MS = 2000;
/** Until a lost datagram shows: it is waited for, then until everything is answered again, and then its pod has to be seen. */
const SHOWN_MS = 10_000;
const SELECTOR = { labelSelector: `app.kubernetes.io/name in (${FLOW_PODS.join(',')})` };
const AGAIN =
  'Look at the log of the agents of these nodes from that time; run the command again to go on, or go back with "netplugctl upgrade rollback"';

/** Through which nodes datagrams flow. */
export interface PacketFlow {
  readonly nodes: readonly string[];
  readonly image: ProbeImage;
}

/**
 * Starts pods on the nodes that send each other datagrams, unless they are there: they outlive the program that started them.
 * @throws upgrade/packets-lost when datagrams were lost since an earlier program started them, upgrade/not-verified when the
 *   datagrams do not flow
 */
export async function startFlow(run: PodRun, { nodes: all, image }: PacketFlow): Promise<void> {
  const nodes = all.slice(0, MOST_NODES);
  const found = await flowPods(run);
  await refuseLosses(run, found);
  const flowing = new Set(found.filter(({ phase }) => phase === 'ready').map(({ node }) => node));
  if (found.every(({ phase }) => phase === 'ready') && nodes.every((node) => flowing.has(node))) return;
  await stopFlow(run);
  // Neighbours in the list send to each other, so that each node is at one end of a flow.
  const [serving, sending] = [nodes.filter((_, at) => at % 2 === 0), nodes.filter((_, at) => at % 2 === 1)];
  const servers = await runPods(run, {
    pods: serving.map((node) => flowServerPod({ ...image, node })),
    until: 'ready',
    what: 'pods that answer datagrams',
  });
  refuseSilent(servers);
  const addressesOf = (at: number): readonly string[] => servers[at]?.addresses ?? [];
  const clients = await runPods(run, {
    pods:
      sending.length === 0
        ? nodes.map((node) => flowClientPod({ ...image, node }, addressesOf(0)))
        : sending.map((node, at) => flowClientPod({ ...image, node }, [...addressesOf(at), ...addressesOf(at + 1)])),
    until: 'ready',
    what: 'pods that send datagrams',
  });
  refuseSilent(clients);
}

/**
 * Does the work while datagrams flow, and interrupts it when some are lost. @throws upgrade/packets-lost after which nothing flows
 * any more
 */
export async function whilePacketsFlow(run: PodRun, work: (run: PodRun) => Promise<void>): Promise<void> {
  const [lost, over] = [new AbortController(), new AbortController()];
  const watching = (async () => {
    while (!over.signal.aborted) {
      await run.clock.sleep(POLL_MS, over.signal).catch(() => undefined);
      // An API server that is upgraded itself does not answer at times.
      const losses = await flowPods(run).then(lossesIn, () => []);
      if (losses.length > 0) {
        lost.abort();
        return;
      }
    }
  })();
  try {
    await work({ ...run, signal: AbortSignal.any([run.signal, lost.signal]) });
  } catch (cause) {
    if (!lost.signal.aborted) throw cause;
  } finally {
    over.abort();
    await watching;
  }
  await refuseLosses(run, await flowPods(run));
}

/**
 * Waits until losses up to now would show, and ends the flow. Says through how many nodes it went. Does nothing when nothing flows.
 * @throws upgrade/packets-lost
 */
export async function endFlow(run: PodRun): Promise<void> {
  if ((await flowPods(run)).length === 0) return;
  await settleFlow(run);
  const pods = await run.api.list(SYSTEM_PODS, SELECTOR, run.signal);
  const nodes = new Set(pods.map((pod) => podStateOf(pod).node));
  const startedMs = Math.min(...pods.map(({ metadata }) => Date.parse(metadata.creationTimestamp ?? '')));
  await stopFlow(run);
  const minutes = ((run.clock.now() - startedMs) / 60_000).toFixed(1);
  run.onProgress(`packets between pods of ${String(nodes.size)} nodes: none lost in ${minutes} minutes`);
}

/** Waits until losses up to now would show. @throws upgrade/packets-lost */
export async function settleFlow(run: PodRun): Promise<void> {
  await run.clock.sleep(SHOWN_MS, run.signal);
  await refuseLosses(run, await flowPods(run));
}

/** Removes the pods, whoever has started them. */
export async function stopFlow(run: Omit<PodRun, 'onProgress'>): Promise<void> {
  await removePodsNamed(run, FLOW_PODS);
}

async function flowPods({ api, signal }: PodRun): Promise<readonly PodState[]> {
  const pods: readonly ApiObject[] = await api.list(SYSTEM_PODS, SELECTOR, signal);
  return pods.map(podStateOf);
}

/** Pods that were evicted or deleted have lost nothing. */
function lossesIn(pods: readonly PodState[]): readonly string[] {
  return pods.flatMap(({ node, phase, reason = '' }) =>
    phase === 'failed'
      ? reason
          .split('\n')
          .filter((line) => / datagrams lost |was answered/.test(line))
          .map((line) => `${node}: ${line.trim()}`)
      : [],
  );
}

/** Removes the pods when there are losses, so that these are reported once. @throws upgrade/packets-lost */
async function refuseLosses(run: PodRun, pods: readonly PodState[]): Promise<void> {
  const losses = lossesIn(pods);
  if (losses.length === 0) return;
  await stopFlow(run);
  throw new NetplugError('upgrade/packets-lost', `Packets between pods were lost:\n  ${losses.join('\n  ')}`, {
    hint: AGAIN,
    facts: { losses },
  });
}

function refuseSilent(states: readonly PodState[]): void {
  const failed = states.filter(({ phase }) => phase !== 'ready');
  if (failed.length === 0) return;
  const lines = failed.map(({ node, name, reason = '' }) => `\n  ${node === '' ? name : node}: ${reason.trim()}`);
  throw new NetplugError(
    'upgrade/not-verified',
    `Cannot watch packets between pods: ${String(failed.length)} of ${String(states.length)} pods do not work${lines.join('')}`,
    {
      hint: 'Let pods of the namespace netplug-system reach each other on UDP port 8080, or leave the packets unwatched with --no-proof',
      facts: { nodes: failed.map(({ node }) => node) },
    },
  );
}
