// Nodes of a fabric that exist only as records: other nodes route to them.
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import type { Change } from '../../src/datastore/allocation-store.ts';
import { emptyBlock } from '../../src/model/ip-block.ts';
import { addressAt, cidrAround, parseCidr } from '../../src/net/cidr.ts';
import { type Fabric, resourceOf } from './fabric.ts';
import { nodeName } from './fixtures.ts';
import { within } from './tcp-echo.ts';

const DEADLINE_MS = 20_000;
const ETCD = 'http://127.0.0.1:2379';
const FILES = { keyFile: undefined, certFile: undefined, caCertFile: undefined };
/** Of the hosts in segment a. */
const FIRST_NUMBER = 101;
/** Far from the blocks that real nodes claim. */
const FIRST_BLOCK = 512;

/** Creates `count` Node resources with a block of the IPv4 pool each. */
export async function addSimulatedNodes(fabric: Pick<Fabric, 'apply' | 'store'>, count: number): Promise<void> {
  const numbers = Array.from({ length: count }, (_, index) => index);
  await fabric.apply(
    ...numbers.map((index) => {
      const hex = (index + 1).toString(16).padStart(2, '0');
      return resourceOf('Node', simulatedName(index), {
        bgp: { ipv4Address: `192.0.2.${String(FIRST_NUMBER + index)}/24` },
        ipv4VXLANTunnelAddr: `10.65.200.${String(index + 1)}`,
        vxlanTunnelMACAddr: `02:00:00:00:77:${hex}`,
      });
    }),
  );
  await within(fabric.store.host, async () => {
    const signal = AbortSignal.timeout(DEADLINE_MS);
    await using store = openKvStore({ endpoints: { from: 'list', urls: [ETCD] }, ...FILES });
    const { pools } = await store.readNodeView(nodeName('n1'), undefined, signal);
    const pool = pools.find(({ value }) => value.metadata.name === 'v4');
    if (pool === undefined) throw new Error('there is no pool v4');
    const { cidr, blockSize } = pool.value.spec;
    const size = 2 ** (32 - blockSize);
    const changes = numbers.map((index): Change => {
      const block = cidrAround(addressAt(parseCidr(cidr), (FIRST_BLOCK + index) * size), blockSize);
      return { kind: 'create-block', block: emptyBlock(block, nodeName(simulatedName(index))), pool };
    });
    if ((await store.commit(changes, signal)) !== 'committed') throw new Error('the pool has changed meanwhile');
  });
}

function simulatedName(index: number): string {
  return `simulated-${String(index)}`;
}
