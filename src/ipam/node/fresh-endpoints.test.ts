import { describe, expect, it } from 'vitest';
import { nodeName } from '../../../test/support/fixtures.ts';
import { endpointIdOf, endpointKey, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import { CATCH_UP_MS, FreshEndpoints } from './fresh-endpoints.ts';
import { NodeCache } from './node-cache.ts';

const [OLD, NEW] = [endpointOf('old'), endpointOf('new')];
const KEY = endpointKey(endpointIdOf(NEW));

function endpointOf(containerID: string): WorkloadEndpoint {
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name: 'n1-orch-web-eth0', namespace: 'shop' },
    spec: {
      orchestrator: 'orch',
      node: 'n1',
      network: 'net',
      containerID,
      pod: 'web',
      endpoint: 'eth0',
      interfaceName: 'npl00000000000',
      mac: '0a:00:00:00:00:01',
      ipNetworks: ['10.0.0.1/32'],
      profiles: ['net'],
      ipam: 'netplug-ipam',
    },
  };
}

/** A memory that shows the old endpoint, and a clock. */
function bench(): {
  readonly memory: NodeCache;
  readonly fresh: FreshEndpoints;
  readonly write: () => void;
  readonly pass: (ms: number) => void;
} {
  let nowMs = 0;
  const memory = new NodeCache(nodeName('n1'));
  memory.endpoints.set(KEY, { value: OLD, version: '1' });
  const fresh = new FreshEndpoints(memory, () => nowMs);
  return {
    memory,
    fresh,
    write: () => fresh.note(fresh.prepare([{ kind: 'put-endpoint', endpoint: NEW }])),
    pass: (ms) => (nowMs += ms),
  };
}

describe('an endpoint just written', () => {
  it('is found until the cache shows another version, also over an older one', () => {
    const { memory, fresh, write } = bench();
    write();
    expect(fresh.find(KEY)).toBe(NEW);
    memory.endpoints.set(KEY, { value: NEW, version: '2' });
    expect(fresh.find(KEY)).toBeUndefined();
    memory.endpoints.set(KEY, { value: OLD, version: '1' });
    expect(fresh.keys()).toEqual([]);
  });

  it('is not found when the cache shows it before the write returns', () => {
    const { memory, fresh } = bench();
    const writes = fresh.prepare([{ kind: 'put-endpoint', endpoint: NEW }]);
    memory.endpoints.set(KEY, { value: NEW, version: '2' });
    fresh.note(writes);
    expect(fresh.leftMs(KEY)).toBe(0);
  });

  it('is not waited for without end', () => {
    const { fresh, write, pass } = bench();
    write();
    pass(CATCH_UP_MS - 1);
    expect(fresh.leftMs(KEY)).toBe(1);
    pass(1);
    expect([fresh.leftMs(KEY), fresh.find(KEY)]).toEqual([0, undefined]);
  });
});
