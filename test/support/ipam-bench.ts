import type { Store } from '../../src/datastore/store.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import { MemoryDatabase } from '../../src/datastore/memory/memory-database.ts';
import { type MemoryStoreOptions, openMemoryStore } from '../../src/datastore/memory/memory-store.ts';
import { assign, type AssignRequest, type IpamPorts } from '../../src/ipam/assign.ts';
import type { AssignedAddress } from '../../src/ipam/plan-assign.ts';
import { release } from '../../src/ipam/release.ts';
import type { IpPoolStatus } from '../../src/model/ip-pool-status.ts';
import type { AnyResource } from '../../src/model/kinds.ts';
import { handleOf } from '../../src/model/names.ts';
import { type Address, formatAddress, parseAddress } from '../../src/net/address.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import type { PoolRef } from '../../src/config/netconf.ts';
import { ANY_POOL, NO_POOL, nodeName } from './fixtures.ts';

/** What a test asks of the address manager, in few words. */
export interface Ask {
  readonly node?: string;
  readonly families?: '4' | '6' | '46';
  /** Names or CIDRs, for both families. */
  readonly pools?: readonly string[];
  readonly ip?: string;
  readonly pod?: string;
}

/** The address manager on a memory store, seeded with resources. */
export class IpamBench {
  readonly database = new MemoryDatabase();
  readonly signal = AbortSignal.timeout(60_000);
  /** What the clock of the nodes shows, in milliseconds since 1970. */
  nowMs: () => number = systemClock.now;
  #options: MemoryStoreOptions = {};

  static async with(...resources: readonly AnyResource[]): Promise<IpamBench> {
    const bench = new IpamBench();
    for (const resource of resources) await bench.ports().store.createResource(resource, bench.signal);
    return bench;
  }

  faulty(options: MemoryStoreOptions): this {
    this.#options = options;
    return this;
  }

  ports(): IpamPorts & { readonly store: Store } {
    return {
      store: openMemoryStore(this.database, this.#options),
      clock: { ...systemClock, now: () => this.nowMs() },
      random: systemRandom,
      log: silentLog,
    };
  }

  async assign(container: string, ask: Ask = {}): Promise<readonly AssignedAddress[]> {
    return assign(this.ports(), requestOf(container, ask), { signal: this.signal, cleanupSignal: this.signal });
  }

  /** The addresses alone, as text. */
  async addresses(container: string, ask: Ask = {}): Promise<string[]> {
    return (await this.assign(container, ask)).map(({ address }) => formatAddress(address));
  }

  /** Marks a pool as the controllers do, or removes the mark. */
  async mark(pool: string, status: IpPoolStatus | undefined): Promise<void> {
    const { store } = this.ports();
    const found = await store.findResource({ kind: 'IPPool', name: pool }, this.signal);
    const version = { name: pool, resourceVersion: found?.metadata.resourceVersion ?? '' };
    await store.setPoolStatus(version, status, this.signal);
  }

  async release(container: string, node = 'n1'): Promise<number> {
    const handle = handleOf(attachmentOf(container));
    const freed = await release(
      this.ports(),
      { node: nodeName(node), which: (held) => held.handle === handle },
      this.signal,
    );
    return freed.length;
  }
}

export function attachmentOf(containerId: string): { network: string; containerId: string; ifName: string } {
  return { network: 'net', containerId, ifName: 'eth0' };
}

export function requestOf(container: string, { node = 'n1', families = '4', pools, ip, pod }: Ask): AssignRequest {
  const refs = pools?.map((text): PoolRef =>
    text.includes('/') ? { by: 'cidr', cidr: parseCidr(text) } : { by: 'name', name: text },
  );
  const choice = refs === undefined ? ANY_POOL : { assign: true, pools: refs };
  const asked: Address[] = ip === undefined ? [] : [parseAddress(ip)];
  return {
    node: nodeName(node),
    attachment: attachmentOf(container),
    pod: pod === undefined ? undefined : { namespace: 'default', name: pod, uid: undefined },
    pools: { 4: families.includes('4') ? choice : NO_POOL, 6: families.includes('6') ? choice : NO_POOL },
    requested: { addresses: asked, rule: 'request' },
  };
}
