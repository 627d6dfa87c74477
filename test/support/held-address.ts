import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import type { Store } from '../../src/datastore/store.ts';
import { assign, type PodIdentity } from '../../src/ipam/assign.ts';
import { formatAddress, parseAddress } from '../../src/net/address.ts';
import { ANY_POOL, NO_POOL, nodeName } from './fixtures.ts';
import { attachmentOf } from './ipam-bench.ts';

/** The holder of an address, as the plugin records it. */
export interface Holding {
  readonly container: string;
  readonly node: string;
  readonly pod?: PodIdentity | undefined;
  /** Address that the pod asks for. */
  readonly asked?: string;
}

/** Assigns an IPv4 address, and the one that is asked for, and returns the first. */
export async function holdAddress(store: Store, { container, node, pod, asked }: Holding): Promise<string> {
  const signal = new AbortController().signal;
  const ports = { store, clock: systemClock, random: systemRandom, log: silentLog };
  const request = {
    node: nodeName(node),
    attachment: attachmentOf(container),
    pod,
    pools: { 4: ANY_POOL, 6: NO_POOL },
    requested:
      asked === undefined
        ? { addresses: [], rule: 'node-selector' as const }
        : { addresses: [parseAddress(asked)], rule: 'pod-annotation' as const },
  };
  const [assigned] = await assign(ports, request, { signal, cleanupSignal: signal });
  if (assigned === undefined) throw new Error('no address was assigned');
  return formatAddress(assigned.address);
}
