// An agent follows the settings of AgentConfigurations while it runs.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { loadAddon } from '../../src/dataplane/linux/addon.ts';
import { TUNNELS } from '../../src/routing/tunnels.ts';
import { ALLOW_ALL, type PolicedNode, startPolicedNode } from '../support/policed-node.ts';
import { insideSync } from '../support/policy-host.ts';
import { until } from '../support/until.ts';

const scope = new AsyncDisposableStack();
let policed: PolicedNode;

beforeAll(async () => {
  policed = scope.use(await startPolicedNode());
  await policed.apply(ALLOW_ALL);
});
afterAll(async () => scope.disposeAsync());

async function configure(name: string, spec: object): Promise<void> {
  await policed.apply({ apiVersion: 'netplug.io/v3', kind: 'AgentConfiguration', metadata: { name }, spec });
}

async function preallocated(): Promise<number> {
  const { body } = await policed.agent().ask('/metrics');
  return Number(/^netplug_pool_addresses\{[^}]*state="preallocated"[^}]*\} (\d+)$/m.exec(body)?.[1]);
}

it('keeps the size of warm pools, the more specific record first', async () => {
  await configure('default', { warmPoolSize: 5 });
  await policed.add('shop/web');
  await until(async () => (await preallocated()) === 5, 'five addresses are pre-allocated');
  await configure(`node.${policed.node.name}`, { warmPoolSize: 2 });
  await until(async () => (await preallocated()) === 2, 'two addresses are pre-allocated');
  expect(await preallocated()).toBe(2);
});

it('keeps the level of the log, and where checksums inside VXLAN are computed', async () => {
  const { device } = TUNNELS.vxlan4;
  const offload = (): number => insideSync(policed.node.host, () => loadAddon().txChecksum(device));
  const event = 'tunnel device configured';
  await configure('default', { logSeverityScreen: 'Error' });
  // One watch has both, in this order. A pool is filled when less than half of it is left.
  await configure(`node.${policed.node.name}`, { warmPoolSize: 8 });
  await until(async () => (await preallocated()) === 8, 'the settings have arrived');
  await policed.apply(POOL);
  await until(() => offload() >= 0, 'the tunnel exists');
  for (const [vxlanChecksums, value] of [
    ['software', 0],
    ['offload', 1],
  ] as const) {
    await configure('default', { logSeverityScreen: 'Error', vxlanChecksums });
    await until(() => offload() === value, `checksums are computed by ${vxlanChecksums}`);
  }
  expect(policed.agent().log()).not.toContain(event);
  await configure('default', { logSeverityScreen: 'Info', vxlanChecksums: 'software' });
  await until(() => policed.agent().log().includes(event), 'the agent logs at level INFO');
  expect(offload()).toBe(0);
});

const POOL = {
  apiVersion: 'netplug.io/v3',
  kind: 'IPPool',
  metadata: { name: 'more' },
  spec: { cidr: '10.71.0.0/26', vxlanMode: 'Always' },
};
