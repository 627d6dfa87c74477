import { readDelegatedNetworks } from '../../../cni/delegated-networks.ts';
import { findLeaked, type LeakedReservation, readTraces } from '../../../cni/leaked-reservations.ts';
import type { HostLink } from '../../../dataplane/kernel.ts';
import type { AttachmentRecord } from '../../../model/attachment-record.ts';
import { interfaceKey } from '../../../model/names.ts';
import type { CtlPorts } from '../ports.ts';
import type { DelegatedState } from './finding.ts';

/** Reads what other address managers hold for attachments of this machine. `links` must have been read before. */
export async function readDelegated(
  { plugin, clock, bootedAtMs }: Pick<CtlPorts, 'plugin' | 'clock' | 'bootedAtMs'>,
  known: { readonly links: readonly HostLink[]; readonly records: readonly AttachmentRecord[] },
): Promise<DelegatedState> {
  const networks = await readDelegatedNetworks(plugin.confDir);
  const attached = new Set(known.links.flatMap(({ owner }) => (owner === undefined ? [] : interfaceKey(owner))));
  const leaked: LeakedReservation[] = [];
  const reserved = new Set<string>();
  for (const network of networks) {
    const traces = await readTraces(
      {
        attachments: { list: async () => Promise.resolve({ records: known.records, problems: [] }) },
        listAttached: () => attached,
        now: () => clock.now(),
        bootedAtMs,
      },
      network,
    );
    leaked.push(...findLeaked(network, traces));
    for (const file of traces.files) reserved.add(interfaceKey(file));
  }
  return { networks, leaked, reserved };
}
