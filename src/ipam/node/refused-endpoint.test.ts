import { afterEach, describe, expect, it } from 'vitest';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import type { WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import { nodeName } from '../../../test/support/fixtures.ts';
import { residentOn, type World, worldWith } from '../../../test/support/resident-world.ts';
import { until } from '../../../test/support/until.ts';

const signal = new AbortController().signal;
let world: World;
afterEach(async () => world.end());

const endpoint = {
  apiVersion: 'cni.netplug/v3',
  kind: 'WorkloadEndpoint',
  metadata: { namespace: 'shop', name: 'web' },
  spec: {
    node: nodeName('n1'),
    orchestrator: 'orch',
    pod: 'web',
    containerID: 'a',
    endpoint: 'eth0',
    network: 'net',
    ipNetworks: ['10.0.0.9/32'],
    interfaceName: 'np1',
  },
} as unknown as WorkloadEndpoint;

describe('an endpoint while the datastore refuses everything for a moment', () => {
  it('is written afterwards', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    let isRefused = false;
    const inner = openMemoryStore(world.database, {
      fault: () => (isRefused ? { kind: 'refused' } : undefined),
    });
    const agent = await residentOn(world, { inner });
    await agent.add('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    isRefused = true;
    const time = async <T>(_: string, work: () => Promise<T>): Promise<T> => work();
    await agent.node.commit([{ kind: 'put-endpoint', endpoint }], { signal, time });
    await new Promise((resolve) => setTimeout(resolve, 500));
    isRefused = false;
    await until(() => agent.node.state.waiting === 0, 'everything is written');
    expect(world.database.state().endpoints.size).toBe(1);
  }, 120_000);
});
