// The second part of the demonstration: what agents keep between two nodes, while a ping runs that nothing may disturb.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Fabric, FabricNode, FabricPod } from '../../test/support/fabric.ts';
import type { Service } from '../../test/support/node.ts';
import { countAnswers } from '../../test/support/traffic-flow.ts';
import { receiveInside, transfer } from '../../test/support/traffic.ts';
import { until } from '../../test/support/until.ts';
import { heading, ms, say, typed } from './screen.ts';

const HZ = 50;
const LINGER_DEADLINE_MS = 60_000;

/** Agents keep the network between them, from VXLAN to BGP. */
export async function showTwoNodes(fabric: Fabric): Promise<void> {
  heading('Between nodes: an agent on each keeps the network to the other, here inside VXLAN');
  await setMode(fabric, 'Always');
  const startMs = performance.now();
  await fabric.startAgents();
  say('agents', `on ${fabric.nodes.map(({ name }) => name).join(' and ')}, ready after ${ms(startMs)}`);
  const [first, second] = await fabric.podOnEach();
  if (first === undefined || second === undefined) throw new Error('there is no pod on some node');
  for (const { node, addresses } of [first, second]) say(`pod on ${node}`, `${addresses.ipv4} and ${addresses.ipv6}`);
  const n1 = fabric.node(first.node);
  await until(
    async () => (await n1.wayTo(second.addresses.ipv4)) === 'vxlan.netplug',
    'n1 has a route to the pod on n2',
  );
  await showStatus(n1);
  await run(n1, 'ip route show proto 118');

  heading(`From here on the pod on n1 pings the pod on n2, ${String(HZ)} times a second`);
  const ping = await startPing(n1, first, second.addresses.ipv4);

  heading('The agent of n1 is killed and started again: the kernel goes on meanwhile');
  await n1.agent().stop('KILL');
  say('killed', `${String((await n1.routes()).length)} routes stay`);
  await n1.startAgent();
  await report(ping);

  heading('The pools go to CrossSubnet: neighbours need no tunnel');
  await setMode(fabric, 'CrossSubnet');
  await until(async () => (await n1.wayTo(second.addresses.ipv4)) === 'eth0', 'n1 sends to the pod on n2 directly');
  await run(n1, 'ip route show proto 118');
  await report(ping);

  heading('The pools go to BGP: BIRD learns the routes, behind those of before, which stay for 30 s');
  await setMode(fabric, 'Never');
  await until(async () => (await routesOfBird(n1)).includes('via'), 'BIRD has learnt routes');
  await showStatus(n1);
  await run(n1, 'ip route show root 10.65.0.0/16');
  await showWorld(fabric, first);
  say('waiting', 'until every node has had its time to follow');
  await until(async () => !(await routesOfAgent(n1)).includes('via'), 'BIRD routes alone', LINGER_DEADLINE_MS);
  await run(n1, 'ip route show root 10.65.0.0/16');
  const { lost } = await report(ping);
  if (lost > 0) throw new Error('a packet of the demonstration was lost');
}

async function showWorld(fabric: Fabric, pod: FabricPod): Promise<void> {
  heading('Meanwhile: to the world, pods go with the address of their node (natOutgoing)');
  using _receiver = await receiveInside(fabric.world);
  const { ipv4, ipv6 } = fabric.world.addresses;
  for (const address of [ipv4, ipv6]) {
    const { seenFrom } = await transfer(pod, address, 1400);
    say(address, `sees ${seenFrom}`);
  }
}

async function setMode(fabric: Fabric, vxlanMode: string): Promise<void> {
  const spec = { vxlanMode, natOutgoing: true };
  await fabric.setPools(spec);
  typed(`netplugctl apply -f pools.yaml    # spec: ${JSON.stringify(spec)}`, '');
}

async function startPing({ machine }: FabricNode, { netns }: FabricPod, address: string): Promise<Service> {
  return machine.start(['nsenter', `--net=${netns.path}`, 'ping', '-n', '-O', '-i', String(1 / HZ), address]);
}

/** A second later. */
async function report(ping: Service): Promise<{ readonly lost: number }> {
  await sleep(1000);
  const { sent, lost } = countAnswers(ping.log().split('\n'));
  say('ping so far', `${String(sent)} packets sent, ${String(lost)} lost`);
  return { lost };
}

async function routesOfBird(node: FabricNode): Promise<string> {
  return node.netns.exec('ip', 'route', 'show', 'proto', 'bird');
}

async function routesOfAgent(node: FabricNode): Promise<string> {
  return node.netns.exec('ip', 'route', 'show', 'proto', '118');
}

async function run({ name, netns }: FabricNode, command: string): Promise<void> {
  const [file = '', ...args] = command.split(' ');
  typed(`${command}    # on ${name}`, await netns.exec(file, ...args));
}

async function showStatus(node: FabricNode): Promise<void> {
  typed(`netplugctl node status    # on ${node.name}`, await node.nodeStatus());
}
