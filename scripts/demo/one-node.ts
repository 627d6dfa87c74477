// The first part of the demonstration: one node, its pods, its agent.
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { startAgent } from '../../test/support/agent.ts';
import type { CniCall, Json, TestNode } from '../../test/support/node.ts';
import { heading, ms, print, say, typed } from './screen.ts';

const NETPLUGCTL = resolve('dist/bin/netplugctl');
const POOLS = `
apiVersion: netplug.io/v3
kind: IPPool
metadata: { name: pods-v4 }
spec: { cidr: 10.65.0.0/24 }
---
apiVersion: netplug.io/v3
kind: IPPool
metadata: { name: pods-v6 }
spec: { cidr: fd65::/112 }
---
apiVersion: netplug.io/v3
kind: Node
metadata: { name: node-a, labels: { zone: east } }
spec: {}
`;

/** Two pods on one node: by the standalone program first, through the agent then. */
export async function showOneNode(node: TestNode): Promise<void> {
  heading('etcd serves inside a namespace of its own; pools and node go in with netplugctl');
  const file = join(node.dir, 'pools.yaml');
  await writeFile(file, POOLS);
  await ctl(node, 'apply', '-f', file);
  await ctl(node, 'get', 'ippools', '-o', 'wide');

  heading('ADD: two pods get addresses, link and routes');
  const conf = node.netconf({ ipam: { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' } });
  const pods = [];
  for (const name of ['web-0', 'web-1']) {
    const netns = await node.pod();
    const call = {
      containerId: `demo-${name}`,
      netns: netns.path,
      args: `K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${name}`,
      conf,
    };
    const startMs = performance.now();
    const { status, json, stdout, stderr } = await node.cni('ADD', call);
    if (status !== 0) throw new Error(stdout + stderr);
    const addresses: string[] = json.ips.map(({ address }: Json) => address.split('/')[0]);
    say(`shop/${name}`, `${addresses.join(' and ')}, host side ${json.interfaces[0].name}, ${ms(startMs)}`);
    say(
      '',
      stderr
        .split('\n')
        .find((line) => line.includes('pod connected'))
        ?.replace(/^\S+ /, '') ?? '',
    );
    pods.push({ name, netns, call, addresses });
  }
  const [first, second] = pods;
  if (first === undefined || second === undefined) return;

  heading('What the pod sees');
  print(await first.netns.exec('ip', '-br', 'address'));
  print(await first.netns.exec('ip', 'route'));
  print(await first.netns.exec('ip', '-6', 'route', 'show', 'default'));

  heading('What the host routes');
  print((await node.exec('ip', 'route')).concat(await node.exec('ip', '-6', 'route')));

  heading('They reach each other, in both families');
  for (const address of second.addresses) {
    const answer = await first.netns.exec('ping', '-n', '-c', '2', '-i', '0.2', '-W', '1', address);
    say(
      `${first.name} to ${second.name}`,
      answer
        .split('\n')
        .filter((line) => /received|rtt/.test(line))
        .join('; '),
    );
  }

  heading('What the address manager knows');
  await ctl(node, 'ipam', 'show', '--blocks');
  await ctl(node, 'ipam', 'show', '--ip', first.addresses[0] ?? '');
  await ctl(node, 'ipam', 'check', '--node', node.name);

  heading('DEL: link, addresses and records go');
  for (const { name, call } of pods) {
    const startMs = performance.now();
    const { status, stdout } = await node.cni('DEL', call);
    if (status !== 0) throw new Error(stdout);
    say(`shop/${name}`, `gone, ${ms(startMs)}`);
  }
  const left = [await node.hostLinks(), await node.heldAddresses(), await node.endpoints()].flat();
  say('left over', left.length === 0 ? 'nothing' : JSON.stringify(left));
  if (left.length > 0) throw new Error('the demonstration left something behind');
  await showAgent(node, first.call);
}

async function showAgent(node: TestNode, call: CniCall): Promise<void> {
  heading('The same pod five times through the resident agent, which writes to etcd behind its back');
  await using agent = await startAgent(node);
  const env = { NETPLUG_SOCKET: agent.socket };
  for (let round = 1; round <= 5; round += 1) {
    const spent: string[] = [];
    for (const verb of ['ADD', 'DEL']) {
      const startMs = performance.now();
      const { status, stdout } = await node.cni(verb, { ...call, env });
      if (status !== 0) throw new Error(stdout);
      spent.push(`${verb} ${ms(startMs)}`);
    }
    say(`round ${String(round)}`, spent.join(', '));
  }
  await agent.settled();
  await ctl(node, 'ipam', 'show');
  await ctl(node, 'trace', '--last', '2', '--socket', agent.socket);
}

async function ctl(node: TestNode, ...args: string[]): Promise<void> {
  const { status, stdout, stderr } = await node.run([NETPLUGCTL, ...args], {
    env: { KV_ENDPOINTS: 'http://127.0.0.1:2379' },
  });
  if (status !== 0) throw new Error(stdout + stderr);
  typed(`netplugctl ${args.join(' ')}`, stdout);
}
