import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { poolOf } from '../../../../test/support/fixtures.ts';
import { hostAt, startNode, stopNodes, works, worldWith } from '../../../../test/support/networked-node.ts';
import { until } from '../../../../test/support/until.ts';
import { AttachmentFiles } from '../../../cni/attachment-files.ts';
import { type MemoryFilterTables, MemoryPolicyFilter } from '../../../../test/support/memory/memory-policy-filter.ts';
import { filterText } from '../../../../test/support/filter-text.ts';
import { parseAddress } from '../../../net/address.ts';

const VXLAN = poolOf('v4', '10.65.0.0/16', { vxlanMode: 'Always' });

afterEach(stopNodes);

it('translates floating IPs that another program has recorded while their pod has a link', async () => {
  const { store } = await worldWith(VXLAN);
  const folder = mkdtempSync(join(tmpdir(), 'netplug-records-'));
  const attached = new Set<string>();
  const tables: MemoryFilterTables = new Map();
  const a = startNode('a', {
    store,
    host: hostAt('192.0.2.1/24'),
    filter: new MemoryPolicyFilter(tables),
    attachments: new AttachmentFiles(folder),
    attached,
  });
  await works(a);
  const isTranslated = (text: string): boolean =>
    [...tables.values()].some((table) => filterText(table).includes(text));
  const internal = parseAddress('10.65.0.9');
  const attachment = { network: 'net', containerId: 'c1', ifName: 'eth0' };
  const standalone = new AttachmentFiles(folder);
  await standalone.put({
    attachment,
    pod: undefined,
    at: '2026-01-01T00:00:00.000Z',
    addressManager: 'netplug-ipam',
    addresses: [internal],
    floating: [{ external: parseAddress('203.0.113.7'), internal }],
    switches: ['floating_ips'],
  });
  writeFileSync(join(folder, 'torn.json'), '{"format":1,');
  await until(() => a.network.problems().some(({ text }) => text.includes('torn.json')), 'the torn record is reported');
  expect(isTranslated('203.0.113.7')).toBe(false);
  const startMs = performance.now();
  attached.add('c1/eth0');
  await until(() => isTranslated('203.0.113.7'), 'the floating IP is translated');
  // By the event of the link, before the next resync.
  expect(performance.now() - startMs).toBeLessThan(8000);
  await standalone.remove(attachment);
  await until(() => !isTranslated('203.0.113.7'), 'it is not translated any more');
  expect(a.network.failures()).toEqual([]);
  rmSync(folder, { recursive: true });
});
