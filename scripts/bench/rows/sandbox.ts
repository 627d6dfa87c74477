// RunPodSandbox of a real containerd, less what the same costs without a network of its own.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { startAgent } from '../../../test/support/agent.ts';
import { type Containerd, startContainerd } from '../../../test/support/containerd.ts';
import { startNode, type TestNode } from '../../../test/support/node.ts';
import { installNetwork } from '../../../test/support/runtime.ts';
import { inTurn } from '../attach-rounds.ts';
import type { CandidateName } from '../candidates.ts';
import { type Figure, type LatencyRow, type MeasureRow, ratio } from '../report.ts';
import { quantile, type Sample, summarise } from '../statistics.ts';

const WARM_UP = 3;
/** The kernel and the shim of containerd clear up after a sandbox has gone. */
const SETTLE_MS = 150;
/** Where the shim looks by default, as on a node. */
const SOCKET = '/run/netplug/cni.sock';

interface Runtime {
  readonly name: CandidateName;
  readonly containerd: Containerd;
  readonly pod: Sample[];
  readonly host: Sample[];
}

export const measureSandbox: MeasureRow = async ({ samples, candidates }) => {
  await using scope = new AsyncDisposableStack();
  const runtimes: Runtime[] = [];
  for (const name of candidates) runtimes.push(await openRuntime(name, scope));
  for (let round = 0; round < WARM_UP + samples; round += 1) {
    for (const { containerd, pod, host } of inTurn(runtimes, round)) {
      for (const hostNetwork of round % 2 === 0 ? [false, true] : [true, false]) {
        const sample = await time(containerd, { hostNetwork });
        if (round >= WARM_UP) (hostNetwork ? host : pod).push(sample);
      }
    }
  }
  return { latencies: runtimes.flatMap(latenciesOf), figures: figuresOf(runtimes) };
};

/** A node of its own: containerd reads one network only. */
async function openRuntime(name: CandidateName, scope: AsyncDisposableStack): Promise<Runtime> {
  const node = scope.use(await startNode({ ownRun: true, durable: true }));
  if (name !== 'ptp') await node.seedPool('pods', '10.64.0.0/16');
  if (name === 'agent') scope.use(await startAgent(node, { socket: SOCKET }));
  const cniVersion = '1.0.0';
  const plugins = [name === 'ptp' ? ptpConf() : node.netconf()];
  await installNetwork(node, { cniVersion, name: 'k8s-pod-network', plugins });
  const containerd = scope.use(await startContainerd(node));
  return { name, containerd, pod: [], host: [] };
}

function ptpConf(): Awaited<ReturnType<TestNode['netconf']>> {
  const ipam = { type: 'host-local', ranges: [[{ subnet: '10.66.0.0/16' }]], routes: [{ dst: '0.0.0.0/0' }] };
  return { type: 'ptp', ipam };
}

/** The time of RunPodSandbox; what uses the CPU meanwhile cannot be told apart. */
async function time(containerd: Containerd, { hostNetwork }: { hostNetwork: boolean }): Promise<Sample> {
  const uid = randomUUID();
  const startMs = performance.now();
  const id = await containerd.runSandbox({ namespace: 'bench', name: `pod-${uid}`, uid, hostNetwork });
  const ms = performance.now() - startMs;
  await containerd.removeSandbox(id);
  await sleep(SETTLE_MS);
  return { ms, cpuMs: Number.NaN };
}

function latenciesOf({ name, pod, host }: Runtime): LatencyRow[] {
  return [
    { what: 'RunPodSandbox', candidate: name, ...summarise(pod) },
    { what: 'RunPodSandbox, host network', candidate: name, ...summarise(host) },
  ];
}

/** The median of the differences of neighbours, which a machine that is slow for a while slows down alike. */
function shareOf(pod: readonly Sample[], host: readonly Sample[]): number {
  return quantile(
    pod.map(({ ms }, round) => ms - (host[round]?.ms ?? Number.NaN)),
    0.5,
  );
}

function figuresOf(runtimes: readonly Runtime[]): Figure[] {
  const shares = new Map(runtimes.map(({ name, pod, host }) => [name, shareOf(pod, host)]));
  return [...shares].flatMap(([name, ms]) => [
    { id: `sandbox.ms.${name}`, what: `RunPodSandbox less host network, ${name}`, value: ms, unit: 'ms' },
    ...(name === 'ptp'
      ? []
      : ratio(
          { id: `sandbox.${name}`, what: `RunPodSandbox less host network, ${name} / ptp` },
          ms,
          shares.get('ptp'),
        )),
  ]);
}
