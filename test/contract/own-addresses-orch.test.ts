import { isDeepStrictEqual } from 'node:util';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { nodeName, poolOf } from '../support/fixtures.ts';
import { hostAt, type RunningNode, startNode, stopNodes, works } from '../support/networked-node.ts';
import type { Json } from '../support/node.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { until } from '../support/until.ts';

const never = new AbortController().signal;
const merge = 'application/merge-patch+json';

let server: OrchApiServer;
let store: Store;
beforeAll(async () => {
  server = await startOrchApiServer();
  // With the rights that the agent has.
  store = openOrchStore({ from: 'file', path: await server.callerConfig('agent') });
  await server.call('POST', '/apis/netplug.io/v3/ippools', {
    body: poolOf('v4', '10.65.0.0/16', { vxlanMode: 'Always' }),
  });
});
afterEach(stopNodes);
afterAll(async () => {
  await store?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

const start = (name: string, address: string): RunningNode => startNode(name, { store, host: hostAt(`${address}/24`) });

async function setInternalIp(name: string, address: string): Promise<void> {
  const body = { status: { addresses: [{ type: 'InternalIP', address }] } };
  await server.call('PATCH', `/api/v1/nodes/${name}/status`, { type: merge, body });
}

/** The addresses that other nodes read. */
async function published(): Promise<Readonly<Record<string, string>>> {
  const { items } = await server.call('GET', '/apis/netplug.io/v3/netplugnodes');
  return Object.fromEntries(items.map(({ metadata, spec }: Json) => [metadata.name, spec.bgp?.ipv4Address]));
}

it('addresses are taken by nodes that start with those of each other', async () => {
  await Promise.all(['a', 'b'].map(async (name) => server.putNode(name)));
  await store.publishNode(nodeName('a'), { ipv4Address: '192.0.2.1/24' }, never);
  await store.publishNode(nodeName('b'), { ipv4Address: '192.0.2.2/24' }, never);
  const [a, b] = [start('a', '192.0.2.2'), start('b', '192.0.2.1')];
  await until(
    async () => isDeepStrictEqual(await published(), { a: '192.0.2.2/24', b: '192.0.2.1/24' }),
    'they have them',
  );
  await works(a, b);
  expect(await published()).toEqual({ a: '192.0.2.2/24', b: '192.0.2.1/24' });
});

it('addresses are taken from a node whose agent is down when the kubelet says that another node has them, and not before', async () => {
  await Promise.all(['c', 'down'].map(async (name) => server.putNode(name)));
  await setInternalIp('down', '192.0.2.9');
  await store.publishNode(nodeName('down'), { ipv4Address: '192.0.2.9/24' }, never);
  await setInternalIp('c', '192.0.2.9');
  const c = start('c', '192.0.2.9');
  await until(() => c.network.problems().some(({ text }) => text.includes('"down"')), 'it says so');
  // Only the Node says so: the agent that would copy it to the NetplugNode does not run.
  await setInternalIp('down', '192.0.2.10');
  await until(async () => (await published())['c'] === '192.0.2.9/24', 'it has the address');
  await works(c);
  expect((await published())['down']).toBe('192.0.2.9/24');
});
