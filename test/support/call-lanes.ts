// Runtimes that call the plugin of a node without pause: ADD and DEL on several lanes, one after the other on each.
import { type Launcher, type Run, startLauncher } from '../../scripts/bench/launcher.ts';
import type { TestNetns } from './netns.ts';
import type { TestNode } from './node.ts';

/** One runtime, with the namespace of its pod. */
export interface CallLane {
  readonly name: string;
  readonly launcher: Launcher;
  readonly pod: TestNetns;
}

/** Starts so many lanes on the node, which the scope ends. */
export async function startLanes(
  node: TestNode,
  { count, prefix, scope }: { readonly count: number; readonly prefix: string; readonly scope: AsyncDisposableStack },
): Promise<readonly CallLane[]> {
  const lanes: CallLane[] = [];
  for (let lane = 0; lane < count; lane += 1) {
    const name = `${prefix}${String(lane)}`;
    lanes.push({ launcher: scope.use(await startLauncher(node, name)), pod: await node.pod(), name });
  }
  return lanes;
}

export interface LaneCalls {
  readonly lanes: readonly CallLane[];
  /** Path of the plugin. */
  readonly plugin: string;
  readonly env: Readonly<Record<string, string>>;
  readonly netconf: object;
  /** Who holds each address, on all nodes that share the map: no other container may be given it. */
  readonly holders?: Map<string, string>;
}

/** Calls on all lanes until `stop`, which returns the outcomes. */
export function callWithoutPause(
  node: Pick<TestNode, 'cniPath'>,
  { lanes, plugin, env, netconf, holders = new Map() }: LaneCalls,
): { stop(): Promise<readonly Run[]> } {
  const over = new AbortController();
  const runs: Run[] = [];
  const call = async ({ launcher, pod }: CallLane, verb: string, container: string): Promise<Run> => {
    const variables = {
      CNI_COMMAND: verb,
      CNI_CONTAINERID: container,
      CNI_NETNS: pod.path,
      CNI_IFNAME: 'eth0',
      CNI_PATH: node.cniPath,
    };
    const { runs: answers } = await launcher.run([
      { argv: [plugin], env: { ...env, ...variables }, stdin: JSON.stringify(netconf) },
    ]);
    runs.push(answers[0]!);
    return answers[0]!;
  };
  const work = Promise.all(
    lanes.map(async (lane) => {
      for (let round = 0; !over.signal.aborted; round += 1) {
        const container = `${lane.name}-${String(round)}`;
        const added = await call(lane, 'ADD', container);
        const { ips: assigned = [] }: { readonly ips?: readonly { readonly address: string }[] } =
          added.status === 0 ? JSON.parse(added.stdout) : {};
        for (const { address } of assigned) {
          const holder = holders.get(address);
          if (holder !== undefined) throw new Error(`${address} was given to ${holder} and to ${container}`);
          holders.set(address, container);
        }
        // Another ADD gets the address as soon as this DEL is under way.
        for (const { address } of assigned) holders.delete(address);
        await call(lane, 'DEL', container);
      }
    }),
  );
  // Awaited by stop; until then another failure may come first.
  work.catch(() => undefined);
  return {
    stop: async () => {
      over.abort();
      await work;
      return runs;
    },
  };
}

/** What calls that failed have said. */
export function failuresOf(runs: readonly Run[]): string[] {
  return runs.filter(({ status }) => status !== 0).map(({ stdout }) => stdout);
}
