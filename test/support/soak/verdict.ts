// What has to be true when everything is up and nothing is under way.
import { type HeldAddress, heldAddresses } from '../../../src/model/ip-block.ts';
import { formatAddress } from '../../../src/net/address.ts';
import { cidrContains, parseCidr } from '../../../src/net/cidr.ts';
import type { SoakCluster, SoakNode } from './cluster.ts';
import { until } from '../until.ts';
import type { Oracle } from './oracle.ts';
import { addressesIn, containerOf, expectBare, type Pod } from './runtime.ts';
import { NETPLUGCTL } from '../built.ts';

export interface Situation {
  readonly cluster: SoakCluster;
  readonly oracle: Oracle;
  readonly podsOf: ReadonlyMap<SoakNode, readonly Pod[]>;
  readonly pools: readonly string[];
}

/**
 * Before GC: what is held and not by a living pod is in the list of `netplugctl ipam check`. A call that was killed may
 * still be taken back.
 */
export async function judgeAccounted({ cluster, oracle, podsOf }: Situation): Promise<void> {
  const living = new Set(
    [...podsOf.values()].flat().flatMap((pod) => (pod.state === 'living' ? containerOf(pod) : [])),
  );
  let strange: HeldAddress[] = [];
  await until(
    async () => {
      const listed = new Set((await Promise.all(cluster.nodes.map(findingsOn))).flat());
      const astray = (await held(cluster)).filter(({ allocation }) => !living.has(allocation.containerId));
      strange = astray.filter(({ address }) => !listed.has(formatAddress(address)));
      return strange.length === 0;
    },
    'every held address has a pod or is found to have leaked',
    60_000,
    500,
  ).catch(() => undefined);
  for (const one of strange) oracle.blame(`held and found by no check: ${textOf(one)}`, textOf(one).split(' ', 2));
}

/** What `netplugctl ipam check` on the node finds wrong. */
async function findingsOn({ node, env }: SoakNode): Promise<string[]> {
  const command = [NETPLUGCTL, 'ipam', 'check', '--node', node.name, '--grace', '0', '--output', 'json'];
  const { stdout, stderr } = await node.run(command, { env: env.tool });
  if (stdout === '') throw new Error(stderr);
  const { findings, notes } = JSON.parse(stdout) as Record<'findings' | 'notes', readonly { subject: string }[]>;
  return [...findings, ...notes].map(({ subject }) => subject);
}

/** After GC: exactly the addresses that living pods received are held, under their names, in blocks of the pools; and the pods answer. */
export async function judgeLiving({ cluster, oracle, podsOf, pools }: Situation): Promise<void> {
  const living = [...podsOf].flatMap(([of, pods]) =>
    pods.filter(({ state }) => state === 'living').map((pod) => ({ of, pod })),
  );
  const expected = living.flatMap(({ of, pod }) =>
    addressesIn(pod.result).map((address) => `${address} ${containerOf(pod)} ${of.node.name}`),
  );
  let actual: string[] = [];
  await until(
    async () => (actual = (await held(cluster)).map(textOf).sort()).join() === expected.sort().join(),
    'records agree with the answers that runtimes received',
    60_000,
    250,
  ).catch(() => {
    for (const one of expected.filter((each) => !actual.includes(each)))
      oracle.blame(`not held: ${one}`, one.split(' ', 2));
    for (const one of actual.filter((each) => !expected.includes(each)))
      oracle.blame(`held without a pod: ${one}`, one.split(' ', 2));
  });
  const addresses = actual.map((each) => each.split(' ', 1)[0]!);
  if (new Set(addresses).size !== addresses.length) oracle.blame('an address is held twice', []);
  for (const { cidr } of await cluster.datastore.blocks())
    if (!pools.some((pool) => cidrContains(parseCidr(pool), cidr))) oracle.blame('a block lies in no pool');
  for (const { of, pod } of living) {
    for (const address of addressesIn(pod.result))
      if (!(await of.node.host.ping(address)))
        oracle.blame(`${address} of ${containerOf(pod)} does not answer`, [containerOf(pod), address]);
  }
  const links = await Promise.all([...podsOf.keys()].map(async ({ node }) => (await node.hostLinks()).length));
  const sum = links.reduce((all, count) => all + count, 0);
  if (sum !== living.length) oracle.blame(`${String(sum)} host links for ${String(living.length)} living pods`);
}

/** After the last DEL and the end of the agents: nothing. */
export async function judgeEmpty({ cluster, oracle, podsOf }: Situation): Promise<void> {
  for (const one of await held(cluster)) oracle.blame(`still held: ${textOf(one)}`, textOf(one).split(' ', 2));
  for (const { preallocated } of await cluster.datastore.blocks())
    if (preallocated.size > 0) oracle.blame(`orphaned pre-allocated addresses: ${[...preallocated.values()].join()}`);
  const containers = [...podsOf.values()].flat().map(containerOf);
  for (const endpoint of await cluster.datastore.endpoints()) {
    const about = containers.filter((container) => endpoint.includes(`"${container}"`));
    oracle.blame(`endpoint is left: ${endpoint}`, about);
  }
  for (const [{ node }, pods] of podsOf) {
    const journals = await node.run(['ls', '-A', '/var/lib/netplug/journal']);
    if (journals.stdout !== '') oracle.blame(`journals of ${node.name} are left: ${journals.stdout}`);
    for (const link of await node.hostLinks()) oracle.blame(`link ${link} is left on ${node.name}`);
    const routes = [...(await node.host.ip('-4', 'route')), ...(await node.host.ip('-6', 'route'))];
    for (const route of routes.filter(({ dev }) => String(dev).startsWith('npl')))
      oracle.blame(`a route is left on ${node.name}: ${JSON.stringify(route)}`);
    for (const pod of pods) await expectBare(pod, oracle);
  }
}

async function held(cluster: SoakCluster): Promise<HeldAddress[]> {
  return (await cluster.datastore.blocks()).flatMap((block) => heldAddresses(block));
}

function textOf({ address, allocation }: HeldAddress): string {
  return `${formatAddress(address)} ${allocation.containerId} ${allocation.node}`;
}
