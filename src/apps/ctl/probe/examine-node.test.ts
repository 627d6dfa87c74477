import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { callCtl, type Ran } from '../../../../test/support/ctl.ts';
import { MemoryHostNetwork } from '../../../../test/support/memory/memory-host-network.ts';
import { memoryPacketTables } from '../../../../test/support/memory/memory-packet-tables.ts';

const IPTABLES = { family: 'ip', name: 'filter', sets: [], chains: [{ name: 'FLANNEL-FWD', rules: [] }] };
const TABLES = memoryPacketTables({ tables: [IPTABLES], sets: ['kube-router-pod-subnets'] });

let folder: string;
beforeEach(async () => (folder = await mkdtemp(join(tmpdir(), 'netplug-examine-'))));
afterEach(async () => rm(folder, { recursive: true, force: true }));

it('warns of what other plugins have left, also in the message of its container, except for those in use', async () => {
  const [procDir, confDir, message] = [join(folder, 'proc'), join(folder, 'net.d'), join(folder, 'message')];
  await mkdir(join(procDir, 'sys/net/ipv4/conf/cilium_host'), { recursive: true });
  await mkdir(join(procDir, '1/root/sys/fs/bpf/tc/globals/cilium_policy'), { recursive: true });
  await mkdir(confDir);
  const examine = async (...flags: readonly string[]): Promise<Ran> =>
    callCtl(['probe', 'node', '--conf-dir', confDir, '--message-file', message, ...flags], {
      host: { uid: 0, procDir },
      openHostNetwork: () => new MemoryHostNetwork(),
      openPacketTables: () => TABLES,
    });
  const found = await examine();
  const warnings = [
    'warning: Cilium has left 1 device ("cilium_host") and 1 pin of eBPF ("cilium_policy")',
    'warning: flannel has left 1 chain ("ip filter FLANNEL-FWD")',
    'warning: kube-router has left 1 set of ipset ("kube-router-pod-subnets")',
  ];
  for (const warning of warnings) expect(found.out).toContain(`${warning}. Remove it, as docs/migration.md says`);
  expect(found).toMatchObject({ status: 0, out: expect.stringMatching(/nothing keeps netplug from working\n$/) });
  expect(`${await readFile(message, 'utf8')}\nnothing keeps netplug from working\n`).toBe(found.out);
  expect(await examine('--keeps-plugin')).toMatchObject({ status: 0, out: 'nothing keeps netplug from working\n' });
  await writeFile(join(confDir, '90-other.conflist'), '{"plugins": [{"type": "flannel"}]}');
  const inUse = await examine();
  expect(inUse.out).toContain('warning: Cilium has left');
  expect(inUse.out).not.toContain('flannel has left');
});
