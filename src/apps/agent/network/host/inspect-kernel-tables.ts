import type { HostNetwork } from '../../../../dataplane/host-network.ts';
import { findFullTables, FULL_TABLE_SEVERITIES, type KernelTables } from '../../../../install/host/kernel-tables.ts';
import { readKernelTables } from '../../../../install/host/read-kernel-tables.ts';
import type { HostInspection } from './inspect-host.ts';

const EVERY_MS = 30_000;

/** Finds tables of the kernel that are full or soon will be. */
export function kernelTableInspection(ports: {
  readonly procDir: string;
  readonly host: Pick<HostNetwork, 'listPeers' | 'listPodLinks'>;
}): HostInspection {
  let before: KernelTables | undefined;
  return {
    name: 'kernel tables',
    everyMs: EVERY_MS,
    pauseMs: EVERY_MS,
    inspect: async () => {
      const now = await readKernelTables(ports);
      const full = findFullTables(now, before);
      before = now;
      return full.map(({ code, found, remedy, command }) => ({
        code,
        severity: FULL_TABLE_SEVERITIES[code],
        text: found,
        remedy: `${remedy}: ${command}`,
      }));
    },
  };
}
