import { beforeEach, describe, expect, it } from 'vitest';
import { nodeName, poolOf } from '../../../test/support/fixtures.ts';
import { holdAddress } from '../../../test/support/held-address.ts';
import { attachmentOf } from '../../../test/support/ipam-bench.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import { MemoryDatabase } from '../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import type { Store } from '../../datastore/store.ts';
import { heldAddresses } from '../../model/ip-block.ts';
import { interfaceKey } from '../../model/names.ts';
import { tunnelAttachment } from '../../model/tunnel-attachment.ts';
import type { WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import { parseAddress } from '../../net/address.ts';
import type { AddressInUse } from '../plan-assertion.ts';
import { EndedAttachments } from './ended-attachments.ts';

const never = new AbortController().signal;
const NODE = nodeName('n1');
const [GRACE_MS, PERIOD_MS] = [1000, 250];
const keyOf = (container: string): string => interfaceKey(attachmentOf(container));

function endpointOf(container: string, interfaceName = `npl${container}`): WorkloadEndpoint {
  const { network, containerId: containerID, ifName: endpoint } = attachmentOf(container);
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name: container, namespace: 'shop' },
    spec: {
      orchestrator: 'orch',
      node: NODE,
      network,
      containerID,
      pod: container,
      endpoint,
      interfaceName,
      mac: '',
      ipNetworks: [],
      profiles: [],
      ipam: 'netplug-ipam',
    },
  };
}

describe('attachments of a node without a link', () => {
  let store: Store;
  let nowMs: number;
  let attached: Set<string>;
  let inUse: AddressInUse[];
  let ended: EndedAttachments;

  beforeEach(async () => {
    store = openMemoryStore(new MemoryDatabase());
    nowMs = 0;
    attached = new Set();
    inUse = [];
    await store.createResource(poolOf('pods', '10.0.0.0/24', { blockSize: 29 }), never);
    const ports = {
      store,
      log: silentLog,
      random: systemRandom,
      clock: { now: () => nowMs, monotonic: () => nowMs, sleep: async () => Promise.resolve() },
      listAttached: () => attached,
      listAddressesInUse: async () => Promise.resolve(inUse),
    };
    ended = new EndedAttachments(ports, NODE, { graceMs: GRACE_MS, periodMs: PERIOD_MS });
  });

  const put = async (endpoint: WorkloadEndpoint): Promise<void> =>
    void (await store.commit([{ kind: 'put-endpoint', endpoint }], never));
  /** Records the pod as its ADD does, and returns its address. */
  const add = async (container: string, node = NODE): Promise<string> => {
    const pod = { namespace: 'shop', name: container, uid: `u-${container}` };
    const address = await holdAddress(store, { container, node, pod });
    if (node === NODE) await put(endpointOf(container));
    return address;
  };
  const held = async (): Promise<readonly string[]> =>
    (await store.listBlocks(never)).blocks
      .flatMap(({ value }) => heldAddresses(value).map(({ allocation }) => allocation.containerId))
      .toSorted();
  const recorded = async (): Promise<readonly string[]> =>
    (await store.listEndpoints(NODE, never)).endpoints.map(({ value }) => value.spec.containerID);
  const passes = async (count = 6): Promise<void> => {
    for (let pass = 0; pass < count; pass += 1) {
      nowMs += PERIOD_MS;
      await ended.pass(never);
    }
  };

  it('are released with their endpoints after the grace period, and those with a link stay', async () => {
    await add('gone');
    await add('living');
    attached.add(keyOf('living'));
    await passes(4);
    expect(await held()).toEqual(['gone', 'living']);
    await passes();
    expect([await held(), await recorded()]).toEqual([['living'], ['living']]);
  });

  it('stay while the kernel routes their address, as when the alias of the link was changed', async () => {
    const address = await add('living');
    inUse.push({ address: parseAddress(address), owner: attachmentOf('other') });
    await passes();
    expect(await held()).toEqual(['living']);
  });

  it('start their time again when they had a link in between', async () => {
    await add('restless');
    await passes(3);
    attached.add(keyOf('restless'));
    await passes(1);
    attached.clear();
    await passes(4);
    expect(await held()).toEqual(['restless']);
  });

  it('are not judged when another main plugin makes the links, or they are those of another node or a tunnel', async () => {
    const device = tunnelAttachment(NODE, 'vxlan.netplug');
    await holdAddress(store, { container: 'bridged', node: NODE, pod: { namespace: 'shop', name: 'b', uid: 'u' } });
    await put(endpointOf('bridged', ''));
    await add('elsewhere', nodeName('n2'));
    await put({ ...endpointOf('tunnel'), spec: { ...endpointOf('tunnel').spec, network: device.network } });
    attached.add(keyOf('tunnel'));
    await passes();
    expect(await held()).toEqual(['bridged', 'elsewhere']);
  });

  it('are found by their endpoints alone, and by their addresses alone', async () => {
    await put(endpointOf('record'));
    await add('address');
    await passes(1);
    const own = (await store.listEndpoints(NODE, never)).endpoints.find(({ value }) => value.spec.pod === 'address');
    if (own === undefined) throw new Error('not stored');
    await store.commit([{ kind: 'delete-endpoint', before: own }], never);
    await passes();
    expect([await held(), await recorded()]).toEqual([[], []]);
  });
});
