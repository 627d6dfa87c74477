import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../base/clock.ts';
import { silentLog } from '../base/log.ts';
import { systemRandom } from '../base/random.ts';
import type { CniCall, CniPorts } from '../cni/call.ts';
import { MemoryDatabase } from '../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../datastore/memory/memory-store.ts';
import { type Allocation, emptyBlock, heldAddresses } from '../model/ip-block.ts';
import { handleOf } from '../model/names.ts';
import { parseAddress } from '../net/address.ts';
import { parseCidr } from '../net/cidr.ts';
import type { Datastore } from '../config/connection.ts';
import { datastoreIdOf } from '../ipam/node/datastore-id.ts';
import { encodeLine } from '../ipam/node/entry-codec.ts';
import { segmentName } from '../ipam/node/segment-name.ts';
import { nodeName, poolOf } from '../../test/support/fixtures.ts';
import { attachmentOf } from '../../test/support/ipam-bench.ts';
import { journalFolder, recoverOrphansIn } from './recover-orphans.ts';

const signal = new AbortController().signal;
const NODE = nodeName('n1');
const owner = attachmentOf('a');
const allocation: Allocation = {
  id: 'as in the journal',
  handle: handleOf(owner),
  node: NODE,
  ...owner,
  at: '2026-01-01T00:00:00Z',
  chosenBy: 'node-selector',
};
const datastore: Datastore = {
  type: 'kvv3',
  connection: {
    endpoints: { from: 'list', urls: [] },
    keyFile: undefined,
    certFile: undefined,
    caCertFile: undefined,
  },
};

let state: string;
beforeEach(async () => {
  state = await mkdtemp(join(tmpdir(), 'netplug-leftovers-'));
  await mkdir(journalFolder({ NETPLUG_STATE_DIR: state }));
});
afterEach(async () => rm(state, { recursive: true, force: true }));

describe('the standalone program before an ADD', () => {
  it.each([
    ['that belongs to another datastore', ''],
    ['that was kept because of damage', '.damaged'],
  ])('records what a living link uses although a journal mentions it %s', async (_, ending) => {
    const header = { format: 2, datastore: datastoreIdOf('kvv3', 'earlier'), node: NODE, run: 'm-b-r' } as const;
    const block = parseCidr('10.0.0.0/26');
    const take = { kind: 'take', block, ordinal: 5, from: 'm-b-r#1', allocation } as const;
    writeFileSync(
      join(journalFolder({ NETPLUG_STATE_DIR: state }), `${segmentName(header, 0)}${ending}`),
      encodeLine(header) + encodeLine({ slots: [take], endpoints: [] }),
    );
    const store = openMemoryStore(new MemoryDatabase());
    await store.createResource(poolOf('v4', '10.0.0.0/24', { blockSize: 26 }), signal);
    const { pools } = await store.readNodeView(NODE, undefined, signal);
    await store.commit([{ kind: 'create-block', block: emptyBlock(block, NODE), pool: pools[0] }], signal);
    const kernel = {
      listPodAddresses: async () => Promise.resolve([{ address: parseAddress('10.0.0.5'), owner }]),
      listHostLinks: () => [{ name: 'npa', owner }],
    };
    const attachments = { list: async () => Promise.resolve({ records: [], problems: [] }) };
    // Nothing else of the ports is used before an ADD.
    const ports = { store, kernel, attachments, clock: systemClock, random: systemRandom, log: silentLog } as unknown;
    const call = { node: NODE, attachment: attachmentOf('b'), signal } as unknown as CniCall;
    const settle = recoverOrphansIn({ NETPLUG_STATE_DIR: state });
    await settle(ports as CniPorts, { call, command: 'ADD', datastore });
    const { owned } = await store.readNodeView(NODE, undefined, signal);
    const held = owned.flatMap(({ value }) => heldAddresses(value));
    expect(held.map(({ allocation: { id } }) => id)).toEqual(['as in the journal']);
  });
});
