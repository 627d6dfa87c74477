import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { recordText } from '../../test/support/runtime-record.ts';
import { othersOf } from '../install/host/chained-plugins.ts';
import { listRuntimeRecords } from '../install/host/runtime-records.ts';
import { hostPortsIn } from './host-ports-in.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-bin-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

it('maps host ports by the plugin in the folder of the runtime', async () => {
  await writeFile(join(folder, 'portmap'), '#!/bin/sh\necho "called by $CNI_PATH" >&2; exit 1\n');
  await chmod(join(folder, 'portmap'), 0o755);
  await writeFile(join(folder, 'k8s-pod-network-c1-eth0'), recordText());
  const [record] = await listRuntimeRecords(folder, (name) => name.startsWith('k8s-'));
  const [plugin] = othersOf(record!);
  const ports = hostPortsIn({ NETPLUG_CNI_BIN_DIR: folder }, { listHostLinks: () => [] });

  const failure = await ports.callPlugin({ command: 'ADD', record: record!, plugin: plugin! }, AbortSignal.any([]));

  expect(failure).toBe(`portmap: called by ${folder}`);
});
