// One pod of a node that comes and goes, called as by a runtime.
import type { Agent } from '../../test/support/agent.ts';
import type { TestNode } from '../../test/support/node.ts';
import { type Job, type Launcher, type Run, startLauncher } from './launcher.ts';

const PATH = '/usr/sbin:/usr/bin:/sbin:/bin';

export interface RuntimeCaller {
  readonly agent: Agent;
  readonly launcher: Launcher;
  readonly pair: (verb: 'ADD' | 'DEL') => Job;
  /** The same for a container with a namespace of its own; `args` has to name its pod. */
  readonly job: (
    verb: 'ADD' | 'DEL',
    pod: { readonly id: string; readonly netns: string; readonly args: string },
  ) => Job;
}

/** `args` is CNI_ARGS; the configuration is one with the pool "own" in the etcd of the node unless given. */
export async function openRuntimeCaller(
  node: TestNode,
  agent: Agent,
  {
    scope,
    args = '',
    conf: given,
    name,
  }: {
    readonly scope: AsyncDisposableStack;
    readonly args?: string;
    readonly conf?: object;
    /** Of the launcher; several of one node need different ones. */
    readonly name?: string;
  },
): Promise<RuntimeCaller> {
  const launcher = scope.use(await startLauncher(node, name));
  const netns = (await node.pod()).path;
  const ipam = { type: 'netplug-ipam', assign_ipv6: 'false', ipv4_pools: ['own'] };
  const conf = JSON.stringify(given ?? node.netconf({ ipam }));
  const job: RuntimeCaller['job'] = (verb, pod) => ({
    argv: [`${node.cniPath}/netplug`],
    env: {
      PATH,
      NETPLUG_SOCKET: agent.socket,
      CNI_COMMAND: verb,
      CNI_CONTAINERID: pod.id,
      CNI_NETNS: pod.netns,
      CNI_IFNAME: 'eth0',
      CNI_ARGS: pod.args,
      CNI_PATH: node.cniPath,
    },
    stdin: conf,
  });
  return { agent, launcher, job, pair: (verb) => job(verb, { id: 'beside', netns, args }) };
}

/** One call after the other. */
export async function pairs(
  { launcher, pair, agent }: RuntimeCaller,
  count: number,
): Promise<{ ADD: Run[]; DEL: Run[] }> {
  const jobs = Array.from({ length: count }, () => [pair('ADD'), pair('DEL')]).flat();
  const { runs } = await launcher.run(jobs);
  const failed = runs.find(({ status }) => status !== 0);
  if (failed !== undefined) throw new Error(`a call failed: ${failed.stdout}\n${agent.log()}`);
  return { ADD: runs.filter((_, index) => index % 2 === 0), DEL: runs.filter((_, index) => index % 2 === 1) };
}
