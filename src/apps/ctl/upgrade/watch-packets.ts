import { isLeaving } from '../../../kube/objects.ts';
import { NetplugError } from '../../../base/errors.ts';
import {
  FLOW_PODS,
  flowClientPod,
  flowServerPod,
  type FlowTargets,
  type ProbeImage,
  smallOnlyIn,
} from '../../../install/cluster/probe-objects.ts';
import { type PodRun, podsNamed, removePodsNamed, runPods, SYSTEM_PODS } from '../cluster/node-pods.ts';
import { podState, type PodState } from '../../../kube/status/pod-state.ts';
import { readNodes } from '../../../kube/status/node-state.ts';
import { type Loss, lossesOf, packetsLost, unfitPaths } from './flow-losses.ts';

/** Between the pods of more nodes, the datagrams themselves would be a load. */
const MOST_NODES = 100;
const POLL_MS = 2000;
/** Until an outage shows: its first datagram has waited too long, and a pod of the flow is not ready any more. */
const SHOWN_MS = 10_000;
/** Until an outage that shows has ended, or has lasted too long to wait for its end, and its pod has failed. */
const ENDED_MS = 60_000;
const SELECTOR = podsNamed(FLOW_PODS);
const UNFIT =
  'these paths lose full-size packets already: small ones alone are watched there, and the upgrade is not blamed for the others. Compare the MTU of pods with that of tunnels and uplinks ("ip -d link" on the nodes), and lower "calicoNetwork.mtu" if it is too large';

/** Between which nodes datagrams flow. */
export interface PacketFlow {
  /** Nodes that are ready. */
  readonly nodes: readonly string[];
  readonly image: ProbeImage;
}

/**
 * Starts pods on the nodes that send each other datagrams, unless they are there: they outlive the program that started them.
 * @throws upgrade/packets-lost when some were lost since an earlier program started them, upgrade/not-verified when none flow
 */
export async function startFlow(run: PodRun, { nodes: all, image }: PacketFlow): Promise<void> {
  const nodes = all.slice(0, MOST_NODES);
  const found = await flowPods(run);
  const flowing = new Set(found.filter(({ phase }) => phase === 'ready').map(({ node }) => node));
  if (found.every(({ phase }) => phase === 'ready') && nodes.every((node) => flowing.has(node))) return;
  if (found.length > 0) {
    await expectNoLosses(run);
    run.onProgress(`packets are watched anew: ${describeEnd(found) ?? 'there are other nodes'}`);
  }
  await stopFlow(run);
  if (nodes.length < all.length)
    run.onProgress(`packets are watched between ${String(nodes.length)} of ${String(all.length)} nodes`);
  try {
    await startPods(run, { nodes, image });
  } catch (cause) {
    await stopFlow({ ...run, signal: AbortSignal.timeout(ENDED_MS) });
    throw cause;
  }
}

/**
 * Neighbours in the list send to each other, so that each node is at one end of a flow. Where full-size packets do not arrive even
 * now, small ones alone are watched.
 */
async function startPods(run: PodRun, { nodes, image }: PacketFlow): Promise<void> {
  const [serving, sending] = [nodes.filter((_, at) => at % 2 === 0), nodes.filter((_, at) => at % 2 === 1)];
  const servers = await runPods(run, {
    pods: serving.map((node) => flowServerPod({ ...image, node })),
    until: 'ready',
    what: 'pods that answer datagrams',
  });
  refuseSilent(servers);
  const addressesOf = (at: number): readonly string[] => servers[at]?.addresses ?? [];
  const targets =
    sending.length === 0
      ? nodes.map((node) => ({ node, addresses: addressesOf(0) }))
      : sending.map((node, at) => ({ node, addresses: [...addressesOf(at), ...addressesOf(at + 1)] }));
  await startClients(run, { image, clients: targets.map((each) => ({ ...each, smallOnly: [] })) });
}

/** Starts clients, and again with small datagrams alone for each target that full-size packets do not reach. */
async function startClients(
  run: PodRun,
  { image, clients }: { readonly image: ProbeImage; readonly clients: readonly (FlowTargets & OnNode)[] },
): Promise<void> {
  // A client ends with the first such target: the next one may show only then.
  for (let left = clients; left.length > 0;) {
    const pods = left.map((client) => flowClientPod({ ...image, node: client.node }, client));
    const states = await runPods(run, { pods, until: 'ready', what: 'pods that send datagrams' });
    const unfit = states.map(unfitPaths);
    refuseSilent(states.filter((_, at) => unfit[at]?.length === 0));
    for (const { text } of unfit.flat()) run.onProgress(text);
    if (unfit.flat().length > 0) run.onProgress(UNFIT);
    left = left.flatMap((client, at) => {
      const further = (unfit[at] ?? []).map(({ address }) => address);
      return further.length === 0 ? [] : [{ ...client, smallOnly: [...client.smallOnly, ...further] }];
    });
  }
}

interface OnNode {
  readonly node: string;
}

/** Does the work while datagrams flow, and interrupts it when some are lost. @throws upgrade/packets-lost */
export async function whilePacketsFlow(run: PodRun, work: (run: PodRun) => Promise<void>): Promise<void> {
  const [interrupted, over] = [new AbortController(), new AbortController()];
  let losses: readonly Loss[] = [];
  const watching = (async () => {
    while (!over.signal.aborted && losses.length === 0) {
      await run.clock.sleep(POLL_MS, over.signal).catch(() => undefined);
      // An API server that is upgraded itself does not answer at times.
      losses = await flowPods(run)
        .then(async (pods) => findLosses(run, pods))
        .catch(() => []);
    }
    if (losses.length > 0) interrupted.abort();
  })();
  try {
    await work({ ...run, signal: AbortSignal.any([run.signal, interrupted.signal]) });
  } catch (cause) {
    if (!interrupted.signal.aborted) throw cause;
  } finally {
    over.abort();
    await watching;
  }
  refuseLosses(losses);
}

/** Waits until losses up to now would show. @throws upgrade/packets-lost */
export async function expectNoLosses(run: PodRun): Promise<void> {
  await run.clock.sleep(SHOWN_MS, run.signal);
  const endMs = run.clock.monotonic() + ENDED_MS;
  for (;;) {
    const pods = await flowPods(run);
    refuseLosses(await findLosses(run, pods));
    const ready = await readyNodes(run);
    const silent = pods.filter(({ phase, node }) => phase === 'running' && ready.has(node));
    if (silent.length === 0) return;
    if (run.clock.monotonic() > endMs)
      return refuseLosses(
        silent.map(({ name, node }) => ({
          kind: 'unknown',
          text: `${node}: pod ${name} does not say that datagrams are answered`,
        })),
      );
    await run.clock.sleep(POLL_MS, run.signal);
  }
}

/**
 * Waits until losses up to now would show, and ends the flow. Says between how many nodes it went. Does nothing when nothing flows.
 * @throws upgrade/packets-lost
 */
export async function finishFlow(run: PodRun): Promise<void> {
  if ((await flowPods(run)).length === 0) return;
  await expectNoLosses(run);
  const pods = await run.api.list(SYSTEM_PODS, SELECTOR, run.signal);
  const states = pods.map(podState);
  const nodes = new Set(states.map(({ node }) => node));
  const startedMs = Math.min(...pods.map(({ metadata }) => Date.parse(metadata.creationTimestamp ?? '')));
  const minutes = ((run.clock.now() - startedMs) / 60_000).toFixed(1);
  const ended = describeEnd(states);
  const smallOnly = pods.flatMap(smallOnlyIn);
  await stopFlow(run);
  const notes = [
    ...(smallOnly.length === 0 ? [] : [`full-size ones not watched to ${smallOnly.join(', ')}`]),
    ...(ended === undefined ? [] : [`not watched to the end: ${ended}`]),
  ];
  run.onProgress(
    `packets between pods of ${String(nodes.size)} nodes: none lost in ${minutes} minutes, small or full-size${notes.map((note) => `; ${note}`).join('')}`,
  );
}

/** Removes the pods of the flow. */
export async function stopFlow(run: Omit<PodRun, 'onProgress'>): Promise<void> {
  for (const name of FLOW_PODS) await removePodsNamed(run, [name]);
}

async function flowPods({ api, signal }: Pick<PodRun, 'api' | 'signal'>): Promise<readonly PodState[]> {
  const pods = await api.list(SYSTEM_PODS, SELECTOR, signal);
  return pods.filter((pod) => !isLeaving(pod)).map(podState);
}

/** Returns what has ended without a loss, as by eviction; undefined when nothing has. */
function describeEnd(pods: readonly PodState[]): string | undefined {
  const ended = pods.find(({ phase }) => phase !== 'ready');
  return ended === undefined ? undefined : `pod ${ended.name} is ${ended.phase} (${ended.reason ?? 'not ready'})`;
}

/** A client fails when datagrams are lost. */
async function findLosses(run: PodRun, pods: readonly PodState[]): Promise<readonly Loss[]> {
  if (!pods.some(({ phase }) => phase === 'failed')) return [];
  return lossesOf(pods, await readyNodes(run));
}

async function readyNodes({ api, signal }: Pick<PodRun, 'api' | 'signal'>): Promise<ReadonlySet<string>> {
  return new Set((await readNodes(api, signal)).filter(({ isReady }) => isReady).map(({ name }) => name));
}

function refuseLosses(losses: readonly Loss[]): void {
  if (losses.length > 0) throw packetsLost(losses);
}

function refuseSilent(states: readonly PodState[]): void {
  const failed = states.filter(({ phase }) => phase !== 'ready');
  if (failed.length === 0) return;
  const lines = failed.map(
    (state) => `\n  ${state.node === '' ? state.name : state.node}: ${state.output ?? state.reason ?? ''}`,
  );
  throw new NetplugError(
    'upgrade/not-verified',
    `Cannot watch packets between pods: ${String(failed.length)} of ${String(states.length)} pods do not work${lines.join('')}`,
    {
      hint: 'Let pods of the namespace netplug-system reach each other on UDP port 8080, or leave the packets unwatched with --no-proof',
      facts: { nodes: failed.map(({ node }) => node) },
    },
  );
}
