// Random changes of pods, labels and policies on a fabric whose agents die meanwhile.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Store } from '../../src/datastore/store.ts';
import type { AnyResource } from '../../src/model/kinds.ts';
import { isNetplugError } from '../../src/base/errors.ts';
import type { Fabric, FabricNode } from './fabric.ts';
import type { TestNetns } from './netns.ts';
import type { CniAnswer, Json } from './node.ts';
import { type Dice, diceOf } from './soak/dice.ts';
import { until } from './until.ts';

export interface StormOptions {
  readonly fabric: Fabric;
  /** Of the etcd of the fabric. */
  readonly store: Store;
  readonly seed: number;
  /** At most so many at a time. */
  readonly pods: number;
  readonly policies: number;
}

export interface StormPod {
  readonly name: string;
  readonly node: FabricNode;
  readonly netns: TestNetns;
  readonly containerId: string;
  readonly network: string;
  /** One of each family. */
  readonly addresses: readonly string[];
}

type Sandbox = Omit<StormPod, 'addresses'>;

export interface Storm {
  readonly pods: ReadonlyMap<string, StormPod>;
  readonly policies: ReadonlySet<string>;
  /** Changes that were made, and agents and network processes that were killed. */
  readonly counts: { changes: number; kills: number };
  /** Makes so many changes, several at a time, and kills agents so often meanwhile. All agents run at its end. */
  rage(options: { readonly changes: number; readonly kills: number }): Promise<void>;
}

/** A pod has the profile of its network, and so the labels that this applies. */
const NETWORKS = ['red', 'green', 'blue'];
const NAMESPACES = ['x', 'y', 'z'];
const TEAMS = ['a', 'b'];
/** Whatever the dice say, connections from namespace y to namespace x are denied, and those within namespace z allowed. */
const CERTAIN: readonly AnyResource[] = [
  certainPolicy('closed', { selector: "netplug/namespace == 'x'", action: 'Deny', peer: "netplug/namespace == 'y'" }),
  certainPolicy('open', { selector: "netplug/namespace == 'z'", action: 'Allow', peer: "netplug/namespace == 'z'" }),
];
const AT_ONCE = 4;
const TRIES = 5;
const RETRY_MS = 500;
const SIGNAL_MS = 30_000;
const RECOVERY_MS = 60_000;

export async function startStorm({
  fabric,
  store,
  seed,
  pods: podLimit,
  policies: policyLimit,
}: StormOptions): Promise<Storm> {
  const dice = diceOf(seed);
  const pods = new Map<string, StormPod>();
  const policies = new Set<string>();
  const counts = { changes: 0, kills: 0 };
  const busy = new Set<string>();
  let containers = 0;

  const put = async (resource: AnyResource): Promise<void> => {
    const signal = AbortSignal.timeout(SIGNAL_MS);
    await store.updateResource(resource, signal).catch(async (cause: unknown) => {
      if (!isNetplugError(cause, 'resource/not-found')) throw cause;
      return store.createResource(resource, signal);
    });
  };
  const call = async (verb: 'ADD' | 'DEL', pod: Sandbox): Promise<CniAnswer> => {
    const { node, name, network, containerId, netns } = pod;
    const [namespace = '', podName = ''] = name.split('/');
    const ipam = { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' };
    return node.machine.cni(verb, {
      containerId,
      netns: netns.path,
      args: `IgnoreUnknown=1;K8S_POD_NAMESPACE=${namespace};K8S_POD_NAME=${podName}`,
      conf: node.machine.netconf({ name: network, kv_endpoints: node.etcdUrl, ipam }),
      env: node.places,
    });
  };
  // As a runtime does: a sandbox that failed is deleted, and the pod gets another one.
  const remove = async (pod: Sandbox): Promise<void> => {
    for (let tries = 0; (await call('DEL', pod)).status !== 0; tries += 1) {
      if (tries === TRIES) throw new Error(`DEL of ${pod.name} keeps failing`);
      await sleep(RETRY_MS);
    }
    await pod.netns[Symbol.asyncDispose]();
  };
  const add = async (name: string): Promise<void> => {
    const node = pickOf(dice, fabric.nodes);
    const network = pickOf(dice, NETWORKS);
    let said = '';
    for (let tries = 0; tries < TRIES; tries += 1) {
      containers += 1;
      const containerId = `storm-${String(containers)}`;
      const pod = { name, node, network, containerId, netns: await node.machine.pod() };
      const { status, json, stderr } = await call('ADD', pod);
      if (status === 0) {
        const addresses = json.ips.map(({ address }: Json) => String(address).split('/')[0]);
        pods.set(name, { ...pod, addresses });
        return;
      }
      said = `${JSON.stringify(json)} ${stderr}`;
      await remove(pod);
      await sleep(RETRY_MS);
    }
    throw new Error(`ADD of ${name} keeps failing: ${said}\n${fabric.logs()}`);
  };

  const change = async (): Promise<void> => {
    const kind = dice.pick({ pod: 5, policy: 5, labels: 1 });
    const limit = { pod: podLimit, policy: policyLimit, labels: NETWORKS.length }[kind];
    const number = Math.floor(dice.between(0, limit));
    const id = `${kind} ${String(number)}`;
    // Another one is at it.
    if (busy.has(id)) return;
    busy.add(id);
    try {
      const name = `p${String(number)}`;
      const podName = `${NAMESPACES[number % NAMESPACES.length] ?? ''}/${name}`;
      if (kind === 'labels') await put(profileOf(dice, NETWORKS[number] ?? ''));
      else if (kind === 'policy' && policies.has(name) && dice.chance(0.3)) {
        policies.delete(name);
        await store.deleteResource({ kind: 'GlobalNetworkPolicy', name }, AbortSignal.timeout(SIGNAL_MS));
      } else if (kind === 'policy') {
        policies.add(name);
        await put(policyOf(dice, name));
      } else {
        const before = pods.get(podName);
        pods.delete(podName);
        if (before !== undefined) await remove(before);
        if (before === undefined || dice.chance(0.7)) await add(podName);
      }
      counts.changes += 1;
    } finally {
      busy.delete(id);
    }
  };
  const kill = async (): Promise<void> => {
    const node = pickOf(dice, fabric.nodes);
    counts.kills += 1;
    if (dice.chance(0.3)) {
      const network = await networkProcess(node);
      if (network !== '') await node.machine.run(['kill', '-KILL', network]);
    } else {
      await node.agent().stop('KILL');
      await until(async () => (await networkProcess(node)) === '', 'the network process has ended');
      await node.launchAgent({ NETPLUG_POLICY: 'on' });
    }
    const isReady = async (): Promise<boolean> => (await node.agent().ask('/readyz')).status === 200;
    await until(isReady, () => `the agent of ${node.name} is ready again:\n${fabric.logs()}`, RECOVERY_MS, 100);
  };

  for (const network of NETWORKS) await put(profileOf(dice, network));
  for (const policy of CERTAIN) await put(policy);
  return {
    pods,
    policies,
    counts,
    rage: async ({ changes, kills }) => {
      const end = counts.changes + changes;
      const work = async (): Promise<void> => {
        while (counts.changes < end) await change();
      };
      const killing = async (): Promise<void> => {
        for (let left = kills; left > 0; left -= 1) {
          await sleep(dice.between(200, 1500));
          await kill();
        }
      };
      await Promise.all([killing(), ...Array.from({ length: AT_ONCE }, work)]);
    },
  };
}

async function networkProcess({ machine }: FabricNode): Promise<string> {
  return (await machine.run(['pgrep', '--full', '^netplug-network'])).stdout.trim();
}

function pickOf<T>(dice: Dice, values: readonly T[]): T {
  return values[Math.floor(dice.between(0, values.length))]!;
}

function profileOf(dice: Dice, name: string): AnyResource {
  const rules = [{ action: 'Allow' as const }];
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'Profile',
    metadata: { name },
    spec: { labelsToApply: { team: pickOf(dice, TEAMS) }, ingress: rules, egress: rules },
  };
}

/** A policy before all others, in both directions. */
function certainPolicy(
  name: string,
  { selector, action, peer }: { readonly selector: string; readonly action: 'Allow' | 'Deny'; readonly peer: string },
): AnyResource {
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'GlobalNetworkPolicy',
    metadata: { name },
    spec: {
      order: -1,
      selector,
      types: ['Ingress', 'Egress'],
      ingress: [{ action, source: { selector: peer } }],
      egress: [{ action, destination: { selector: peer } }],
    },
  };
}

function policyOf(dice: Dice, name: string): AnyResource {
  const selector = (): string =>
    pickOf(dice, [
      `team == '${pickOf(dice, TEAMS)}'`,
      `netplug/namespace == '${pickOf(dice, NAMESPACES)}'`,
      `netplug/namespace in { 'x', 'y' } && team != 'a'`,
      'all()',
    ]);
  const rule = (peer: 'source' | 'destination'): object => ({
    action: dice.pick({ Allow: 6, Deny: 2, Pass: 1 }),
    [peer]: dice.chance(0.2) ? { nets: [pickOf(dice, ['10.65.0.0/17', 'fd00:65::/72'])] } : { selector: selector() },
  });
  const type = pickOf(dice, ['Ingress', 'Egress'] as const);
  const rules = Array.from({ length: Math.floor(dice.between(1, 4)) }, () =>
    rule(type === 'Ingress' ? 'source' : 'destination'),
  );
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'GlobalNetworkPolicy',
    metadata: { name },
    spec: {
      order: Math.floor(dice.between(0, 100)),
      selector: selector(),
      types: [type],
      [type === 'Ingress' ? 'ingress' : 'egress']: rules,
    },
  };
}
