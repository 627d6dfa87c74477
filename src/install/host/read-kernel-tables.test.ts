import { mkdir, mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import type { TunnelPeer } from '../../dataplane/host-network.ts';
import { parseAddress } from '../../net/address.ts';

import { readKernelTables } from './read-kernel-tables.ts';

const PEER: TunnelPeer = {
  device: 'vxlan.netplug',
  gateway: parseAddress('10.65.0.64'),
  mac: '0a:00:00:00:00:02',
  remote: parseAddress('192.0.2.12'),
};
const NEIGHBOURS =
  'entries  allocs forced_gc_runs table_fulls\n00000020 00000040 00000003 00000001\n00000020 00000000 00000001 00000000\n';
const FLOWS = 'entries  clashres drop insert_failed\n00000007 00000000 00000002 00000001\n';
const FILES: Readonly<Record<string, string>> = {
  'sys/net/netfilter/nf_conntrack_count': '7\n',
  'sys/net/netfilter/nf_conntrack_max': '262144\n',
  'net/stat/nf_conntrack': FLOWS,
  'sys/net/ipv4/neigh/default/gc_thresh3': '1024\n',
  'net/stat/arp_cache': NEIGHBOURS,
  // Outside of the first network namespace there is no limit to read.
  'net/stat/ndisc_cache': NEIGHBOURS,
};

it('reads tables of flows and neighbours, without the permanent neighbours of tunnels and pods', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'netplug-'));
  const host = {
    listPeers: async (device: string) => Promise.resolve(device === PEER.device ? [PEER] : []),
    listPodLinks: async () =>
      Promise.resolve(
        [['10.65.0.2', 'fd00:65::2'], ['10.65.0.3'], ['fd00:65::4'], []].map((addresses, index) => ({
          name: `npl${String(index)}`,
          addresses: addresses.map(parseAddress),
        })),
      ),
  };
  expect(await readKernelTables({ procDir: folder.path, host })).toEqual({ flows: undefined, neighbours: [] });
  for (const [path, text] of Object.entries(FILES)) {
    await mkdir(dirname(join(folder.path, path)), { recursive: true });
    await writeFile(join(folder.path, path), text);
  }
  expect(await readKernelTables({ procDir: folder.path, host })).toEqual({
    flows: { entries: 7, most: 262_144, dropped: 3 },
    neighbours: [{ family: 4, most: 1024, entries: 29, collections: 4, refused: 1 }],
  });
});
