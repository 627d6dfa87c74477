// A cluster whose nodes have IPv6 alone, with the fan-out: its pods are reached, and go on while every server is gone and come back.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { SIZES } from '../runs.ts';
import type { Cluster } from '../support/cluster.ts';
import { mustRunCtl, startEmptyCluster } from '../support/install-scenes.ts';
import { type Json, until } from '../support/node.ts';

const PORT = 8080;
const TYPHA = ['--namespace=netplug-system', 'deployment/netplug-typha'];
const INSTALLATION = {
  apiVersion: 'netplug.io/v3',
  kind: 'Installation',
  metadata: { name: 'default' },
  spec: {
    typha: { mode: 'Enabled' },
    calicoNetwork: { ipPools: [{ name: 'default-ipv6', cidr: 'fd00:83::/64', encapsulation: 'VXLAN' }] },
  },
};
/** Refuses everything to the pods of an application. */
const CLOSED = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name: 'closed' },
  spec: { podSelector: { matchLabels: { app: 'server' } }, policyTypes: ['Ingress'] },
};

const scope = new AsyncDisposableStack();
let cluster: Cluster;

beforeAll(async () => {
  cluster = scope.use(await startEmptyCluster({ families: 'ipv6' }));
}, 300_000);
afterAll(async () => scope.disposeAsync());

function podOn(node: string, app: string, command: readonly string[]): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: app, labels: { app } },
    spec: {
      nodeName: node,
      terminationGracePeriodSeconds: 1,
      containers: [{ name: 'main', image: 'busybox:1.35', command }],
    },
  };
}

async function addressOf(pod: string): Promise<string> {
  const { status } = await cluster.get('pod', pod);
  expect(status.podIPs).toEqual([{ ip: expect.stringMatching(/^fd00:83:/) }]);
  return status.podIP;
}

async function isAnswered(from: string, address: string): Promise<boolean> {
  const wget = ['wget', '-q', '-T', '2', '-O', '-', `http://[${address}]:${String(PORT)}/hostname`];
  return cluster.kubectl('exec', from, '--', ...wget).then(
    () => true,
    () => false,
  );
}

/** Since when the agents follow a server, a line of `node status` for each node; empty for one without. */
async function followed(): Promise<readonly string[]> {
  const selector = '--selector=app.kubernetes.io/name=netplug-node';
  const agents = await cluster.get('pods', '--namespace=netplug-system', selector);
  return Promise.all(
    agents.items.map(async ({ metadata }: Json) => {
      const status = ['exec', '--namespace=netplug-system', metadata.name, '--container=agent', '--', 'netplugctl'];
      // It fails, with what it printed in the error, while the node has problems.
      const shown = await cluster.kubectl(...status, 'node', 'status').catch(String);
      return /^.*\bsince\b.*$/m.exec(shown)?.[0] ?? '';
    }),
  );
}

it('is installed by one command, and pods of its nodes reach each other', async () => {
  const path = join(cluster.control.dir, 'installation.json');
  await writeFile(path, JSON.stringify(INSTALLATION));
  await mustRunCtl(cluster, ['install', 'cluster', '--method', 'manifest', '--spec', path, '--yes']);
  await cluster.waitForNodesReady();
  await cluster.apply([
    podOn('node-a', 'client', ['sleep', '100000']),
    podOn('node-b', 'server', ['httpd', '-f', '-p', `[::]:${String(PORT)}`, '-h', '/etc']),
  ]);
  for (const app of ['client', 'server']) await cluster.waitForPodsReady({ selector: `app=${app}`, count: 1 });
  const address = await addressOf('server');
  await until(async () => isAnswered('client', address), 'the pod of the other node answers');
  expect((await followed()).every((line) => line !== '')).toBe(true);
  await cluster.apply([CLOSED]);
  await until(async () => !(await isAnswered('client', address)), 'the policy is in force');
  await cluster.kubectl('delete', 'networkpolicy', 'closed');
  await until(async () => isAnswered('client', address), 'the pod answers again');
}, 300_000);

it(
  'loses no packet between running pods while every server is gone and comes back, and a new pod starts meanwhile',
  async () => {
    const address = await addressOf('server');
    const seconds = SIZES.withoutServersSeconds + 60;
    const ping = cluster.kubectl('exec', 'client', '--', 'ping', '-q', '-i', '0.2', '-w', String(seconds), address);
    // Awaited at the end.
    ping.catch(() => undefined);
    await cluster.kubectl('scale', ...TYPHA, '--replicas=0');
    const goneMs = performance.now();
    await until(async () => (await followed()).every((line) => line === ''), 'no agent has a server', 120_000, 1000);
    await cluster.apply([podOn('node-b', 'late', ['sleep', '100000'])]);
    await cluster.waitForPodsReady({ selector: 'app=late', count: 1 });
    expect(await isAnswered('late', address)).toBe(true);
    await sleep(Math.max(0, SIZES.withoutServersSeconds * 1000 - (performance.now() - goneMs)));
    await cluster.kubectl('scale', ...TYPHA, '--replicas=2');
    await cluster.kubectl('rollout', 'status', ...TYPHA, '--timeout=180s');
    await until(async () => (await followed()).every((line) => line !== ''), 'every agent has a server', 60_000, 1000);
    expect(await ping).toMatch(/^(\d+) packets transmitted, \1 packets received, 0% packet loss$/m);
    // What servers are there for works again.
    await cluster.apply([CLOSED]);
    await until(async () => !(await isAnswered('client', address)), 'a policy of later is in force');
  },
  (SIZES.withoutServersSeconds + 400) * 1000,
);
