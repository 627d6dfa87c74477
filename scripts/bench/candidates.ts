// The compared programs: the same netplug through its agent and without, and what Debian has for the same job.
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ignoreMissing } from '../../src/base/missing-file.ts';
import { type Agent, startAgent } from '../../test/support/agent.ts';
import type { Json, TestNode } from '../../test/support/node.ts';
import { fillBlocks } from './fill-blocks.ts';
import { fillReservations } from './fill-reservations.ts';
import type { Job } from './launcher.ts';
import { cpuMsOf } from './process-usage.ts';

export const CANDIDATES = ['agent', 'standalone', 'alone', 'ptp'] as const;
export type CandidateName = (typeof CANDIDATES)[number];
export type Verb = 'ADD' | 'DEL' | 'STATUS';

export interface Candidate {
  readonly name: CandidateName;
  /** Path of the plugin inside the node. */
  readonly plugin: string;
  readonly conf: Json;
  readonly env: Readonly<Record<string, string>>;
  readonly agent: Agent | undefined;
  /** What its agent, or the server that its first call started, has used; nothing without one. */
  agentCpuMs(): Promise<number>;
  /** Has this many addresses taken, none of which it would hand out next. */
  fill(count: number): Promise<void>;
}

export interface Attachment {
  readonly containerId: string;
  readonly netns: string;
  /** As containerd tells it; only where the pod exists. */
  readonly podUid?: string;
}

export const POOL = '10.64.0.0/15';
const RESERVATIONS = { subnet: '10.66.0.0/16', network: 'ptp-net' };
/** Without a folder for its socket no server of standalone calls is started. */
const NO_FOLDER = '/nonexistent/cni.sock';
const PATH = '/usr/sbin:/usr/bin:/sbin:/bin';

/** Where netplug keeps its records, when not in the etcd of the node. */
export interface OtherDatastore {
  /** Fields of the network configuration. */
  readonly conf: object;
  /** Environment of the agent. */
  readonly env: Readonly<Record<string, string>>;
}

export interface CandidatesOptions {
  readonly names: readonly CandidateName[];
  /** With a pool in it. */
  readonly datastore?: OtherDatastore | undefined;
}

/** Makes them ready on one node; those of netplug have a node name each, so that neither works on the blocks of the other. */
export async function openCandidates(
  node: TestNode,
  { names, datastore }: CandidatesOptions,
  scope: AsyncDisposableStack,
): Promise<Candidate[]> {
  if (datastore === undefined && names.some((name) => name !== 'ptp')) await node.seedPool('pods', POOL);
  const { conf = {}, env = {} } = datastore ?? {};
  const candidates: Candidate[] = [];
  // The standalone program must not find the agent's name and journals.
  const apart = { NETPLUG_STATE_DIR: join(node.dir, 'agent/state'), ...env };
  for (const name of names) {
    if (name === 'agent') candidates.push(agentOf(node, scope.use(await startAgent(node, { env: apart })), conf));
    if (name === 'standalone') candidates.push(await standaloneOf(node, conf));
    if (name === 'alone') candidates.push(aloneOf(node, conf));
    if (name === 'ptp') candidates.push(ptpOf(node));
  }
  return candidates;
}

/** The call as a runtime makes it. */
export function jobOf({ plugin, conf, env }: Candidate, verb: Verb, attachment?: Attachment): Job {
  const pod = attachment === undefined ? {} : podEnv(attachment);
  return {
    argv: [plugin],
    env: { PATH, CNI_COMMAND: verb, CNI_PATH: '/opt/cni/bin', ...pod, ...env },
    stdin: JSON.stringify(conf),
  };
}

function podEnv({ containerId, netns, podUid }: Attachment): Record<string, string> {
  return {
    CNI_CONTAINERID: containerId,
    CNI_NETNS: netns,
    CNI_IFNAME: 'eth0',
    CNI_ARGS: [
      `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=${containerId}`,
      ...(podUid === undefined ? [] : [`K8S_POD_UID=${podUid}`]),
    ].join(';'),
  };
}

function agentOf(node: TestNode, agent: Agent, conf: object): Candidate {
  return {
    name: 'agent',
    plugin: join(node.cniPath, 'netplug'),
    conf: node.netconf(conf),
    env: { NETPLUG_SOCKET: agent.socket },
    agent,
    agentCpuMs: async () => cpuMsOf(node, agent.pid),
    fill: async (count) => fillBlocks(node, { owner: node.name, count }),
  };
}

/** On a node whose agent is down. */
async function standaloneOf(node: TestNode, conf: object): Promise<Candidate> {
  const folder = join(node.dir, 'standalone-run');
  await mkdir(folder, { mode: 0o755 });
  return {
    ...aloneOf(node, conf, 'standalone'),
    env: { NETPLUG_SOCKET: join(folder, 'cni.sock'), NETPLUG_STATE_DIR: join(node.dir, 'standalone') },
    agentCpuMs: async () => {
      const pid = await readFile(join(folder, 'standalone.lock'), 'utf8').catch(ignoreMissing);
      return pid === undefined ? 0 : cpuMsOf(node, Number(pid));
    },
  };
}

/** Every call starts a program. */
function aloneOf(node: TestNode, conf: object, name: 'standalone' | 'alone' = 'alone'): Candidate {
  const owner = `${node.name}-${name}`;
  return {
    name,
    plugin: join(node.cniPath, 'netplug'),
    conf: node.netconf({ ...conf, nodename: owner }),
    env: { NETPLUG_SOCKET: NO_FOLDER, NETPLUG_STATE_DIR: join(node.dir, name) },
    agent: undefined,
    agentCpuMs: async () => 0,
    fill: async (count) => fillBlocks(node, { owner, count }),
  };
}

function ptpOf(node: TestNode): Candidate {
  const { subnet, network } = RESERVATIONS;
  const ipam = { type: 'host-local', ranges: [[{ subnet }]], routes: [{ dst: '0.0.0.0/0' }] };
  return {
    name: 'ptp',
    plugin: join(node.cniPath, 'ptp'),
    conf: { cniVersion: '1.0.0', name: network, type: 'ptp', ipam },
    env: {},
    agent: undefined,
    agentCpuMs: async () => 0,
    fill: async (count) => fillReservations(node, { network, count }),
  };
}
