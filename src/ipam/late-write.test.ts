// Etcd was paused, the agent was killed, another program has answered the repeated call, and now the first write arrives.
import { setTimeout } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { podOf } from '../../test/support/ctl-cluster.ts';
import { poolOf } from '../../test/support/fixtures.ts';
import { IpamBench, requestOf } from '../../test/support/ipam-bench.ts';
import { endpointIdOf } from '../model/workload-endpoint.ts';
import { formatAddress } from '../net/address.ts';
import { assign, type AssignRequest } from './assign.ts';
import type { AssignedAddress } from './plan-assign.ts';

const endpoint = (assigned: readonly AssignedAddress[]): ReturnType<typeof podOf> =>
  podOf(
    'web',
    'n1',
    assigned.map(({ address }) => `${formatAddress(address)}/32`),
  );

const REQUESTED = { id: endpointIdOf(endpoint([])), withAddresses: endpoint };

const ask = (pool?: string): AssignRequest => requestOf('c1', pool === undefined ? {} : { pools: [pool] });

/** Assigns from one pool and writes only after the same attachment was assigned an address from the other pool. */
async function lateWrite(
  ipam: IpamBench,
  { withEndpoint }: { readonly withEndpoint: boolean },
): Promise<{ readonly answered: string[]; readonly late: 'committed' | 'conflict' }> {
  const sent = Promise.withResolvers<undefined>();
  const arrival = Promise.withResolvers<undefined>();
  const killed = new AbortController();
  const cleanupSignal = ipam.signal;
  const extra = withEndpoint ? { endpoint: REQUESTED } : {};
  ipam.faulty({
    pause: async (operation) => {
      if (operation !== 'commit') return;
      sent.resolve(undefined);
      await arrival.promise;
    },
  });
  const dead = assign(ipam.ports(), { ...ask('red'), ...extra }, { signal: killed.signal, cleanupSignal });
  await sent.promise;
  ipam.faulty({});
  await setTimeout(2);
  const answered = await assign(ipam.ports(), { ...ask('blue'), ...extra }, { signal: cleanupSignal, cleanupSignal });
  killed.abort();
  arrival.resolve(undefined);
  const late = await dead.then(
    () => 'committed' as const,
    () => 'conflict' as const,
  );
  return { answered: answered.map(({ address }) => formatAddress(address)), late };
}

describe('the write of a process that died, after its successor has answered', () => {
  const pools = [poolOf('blue', '10.1.0.0/24'), poolOf('red', '10.0.0.0/24')];

  it('changes nothing, because the endpoint is not as it was read', async () => {
    const ipam = await IpamBench.with(...pools);
    expect(await lateWrite(ipam, { withEndpoint: true })).toMatchObject({ late: 'conflict' });
    expect(ipam.database.state().blocks.size).toBe(1);
    expect(await ipam.release('c1')).toBe(1);
  });

  it('without an endpoint takes an address that no repeated call returns, until DEL', async () => {
    const ipam = await IpamBench.with(...pools);
    const { late, answered } = await lateWrite(ipam, { withEndpoint: false });
    expect(late).toBe('committed');
    expect(await ipam.addresses('c1')).toEqual(answered);
    expect(await ipam.release('c1')).toBe(2);
  });

  it('is not what hinders a write over an endpoint that cannot be understood', async () => {
    const ipam = await IpamBench.with(...pools);
    await ipam.ports().store.commit([{ kind: 'put-endpoint', endpoint: endpoint([]) }], ipam.signal);
    ipam.database.damage({ endpoint: REQUESTED.id });
    const limits = { signal: ipam.signal, cleanupSignal: ipam.signal };
    expect(await assign(ipam.ports(), { ...ask('blue'), endpoint: REQUESTED }, limits)).toHaveLength(1);
  });
});
