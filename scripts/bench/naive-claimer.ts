// One of many processes that claim an address each by plain compare-and-swap: read the block, take the first that is
// free, write, and at once again when somebody else has written. Started by rows/claims.ts, which tells it when.
import { takeSlot, updateTo } from '../../test/support/block-edits.ts';
import { randomUUID } from 'node:crypto';
import { handleOf } from '../../src/model/names.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { nodeName } from '../../test/support/fixtures.ts';
import { ETCD, openStoreOn } from './inside.ts';

const DEADLINE_MS = 60_000;
const block = parseCidr(process.argv[2] ?? '');
const node = nodeName(process.argv[3] ?? '');
const store = openStoreOn(ETCD);

process.on('message', () => {
  void claim(AbortSignal.timeout(DEADLINE_MS)).then((attempts) => process.send?.({ attempts }));
});
process.once('disconnect', () => {
  void store[Symbol.asyncDispose]();
});
await store.ping(AbortSignal.timeout(DEADLINE_MS));
process.send?.('ready');

async function claim(signal: AbortSignal): Promise<number> {
  const id = randomUUID();
  const attachment = { network: 'naive', containerId: id, ifName: 'eth0' };
  const at = new Date().toISOString();
  const allocation = { ...attachment, id, handle: handleOf(attachment), node, at, chosenBy: 'node-selector' } as const;
  for (let attempts = 1; ; attempts += 1) {
    const [before] = await store.getBlocks([block], signal);
    const first = before?.value.queue.toSorted((a, b) => a - b)[0];
    if (before === undefined || first === undefined) throw new Error('no block with a free address');
    const after = takeSlot(before.value, first, allocation);
    if ((await store.commit([updateTo(before, after)], signal)) === 'committed') return attempts;
  }
}
