import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import type { Store } from '../../src/datastore/store.ts';
import { assign, type PodIdentity } from '../../src/ipam/assign.ts';
import { formatAddress } from '../../src/net/address.ts';
import { ANY_POOL, NO_POOL, nodeName } from './fixtures.ts';
import { attachmentOf } from './ipam-bench.ts';

/** The holder of an address, as the plugin records it. */
export interface Holding {
  readonly container: string;
  readonly node: string;
  readonly pod?: PodIdentity | undefined;
}

/** Assigns an IPv4 address and returns it. */
export async function holdAddress(store: Store, { container, node, pod }: Holding): Promise<string> {
  const signal = new AbortController().signal;
  const ports = { store, clock: systemClock, random: systemRandom, log: silentLog };
  const request = {
    node: nodeName(node),
    attachment: attachmentOf(container),
    pod,
    pools: { 4: ANY_POOL, 6: NO_POOL },
    requested: { addresses: [], rule: 'node-selector' as const },
  };
  const [assigned] = await assign(ports, request, { signal, cleanupSignal: signal });
  if (assigned === undefined) throw new Error('no address was assigned');
  return formatAddress(assigned.address);
}
