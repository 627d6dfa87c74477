import type { AttachmentRecord } from '../model/attachment-record.ts';
import { type Attachment, interfaceKey } from '../model/names.ts';
import { type Address, addressKey } from '../net/address.ts';
import type { AttachmentRecords } from './attachment-records.ts';
import type { DelegatedNetwork } from './delegated-networks.ts';
import { type HostLocalFile, hostLocalFolder, listHostLocalFiles } from './host-local-files.ts';

/** Time that an ADD may take from the first trace of its attachment to its link. */
const GRACE_MS = 120_000;

/** Addresses that a delegated address manager holds for an attachment that has ended without a DEL. */
export interface LeakedReservation extends Attachment {
  /** `namespace/name`, where the node has recorded it. */
  readonly pod: string | undefined;
  readonly addresses: readonly Address[];
}

/** What the node knows of the attachments of one network. */
export interface NetworkTraces {
  /** Records of netplug, of all networks. */
  readonly records: readonly AttachmentRecord[];
  /** Files of host-local; none under other address managers. */
  readonly files: readonly HostLocalFile[];
  /** `<containerId>/<ifName>` of every pod link that the kernel has. */
  readonly attached: ReadonlySet<string>;
  /** Both in milliseconds since 1970. */
  readonly nowMs: number;
  readonly bootedAtMs: number;
}

export interface TracePorts {
  readonly attachments: Pick<AttachmentRecords, 'list'>;
  readonly listAttached: () => ReadonlySet<string>;
  readonly now: () => number;
  readonly bootedAtMs: () => number;
}

/** Reads what the node knows of a network. @throws cni/record-failed, kernel/failed */
export async function readTraces(ports: TracePorts, { conf, manager }: DelegatedNetwork): Promise<NetworkTraces> {
  const folder = manager === 'host-local' ? hostLocalFolder(conf) : undefined;
  const files = folder === undefined ? [] : await listHostLocalFiles(folder);
  const { records } = await ports.attachments.list();
  const times = { nowMs: ports.now(), bootedAtMs: ports.bootedAtMs() };
  // Last, because an address is held before its link is made.
  return { files, records, attached: ports.listAttached(), ...times };
}

/**
 * Returns the reservations of attachments without a link. An attachment that netplug has not recorded may be that of another main
 * plugin, under which the network had its name before: its addresses leaked only when the node has booted since. One with a trace
 * of the last two minutes may belong to an ADD in progress.
 */
export function findLeaked(
  { name, manager }: Pick<DelegatedNetwork, 'name' | 'manager'>,
  { records, files, attached, nowMs, bootedAtMs }: NetworkTraces,
): readonly LeakedReservation[] {
  const recorded = new Map(
    records
      .filter(({ attachment, addressManager }) => attachment.network === name && addressManager === manager)
      .map((record) => [interfaceKey(record.attachment), record]),
  );
  const held = Map.groupBy(files, interfaceKey);
  return [...new Set([...recorded.keys(), ...held.keys()])].flatMap((key): LeakedReservation[] => {
    const record = recorded.get(key);
    const ofIt = held.get(key) ?? [];
    const owner = record?.attachment ?? ofIt[0];
    if (owner === undefined || attached.has(key)) return [];
    const atMs = Math.max(...ofIt.map((file) => file.atMs), ...(record === undefined ? [] : [Date.parse(record.at)]));
    const isOfEarlierBoot = atMs < bootedAtMs;
    if (!isOfEarlierBoot && (record === undefined || nowMs - atMs < GRACE_MS)) return [];
    const addresses = [...(record?.addresses ?? []), ...ofIt.map(({ address }) => address)];
    return [
      {
        network: name,
        containerId: owner.containerId,
        ifName: owner.ifName,
        pod: record?.pod,
        addresses: [...new Map(addresses.map((address) => [addressKey(address), address])).values()],
      },
    ];
  });
}

/** Returns the DEL that ends the attachment, as its runtime would call it: environment and standard input. */
export function delOf(
  { conf }: DelegatedNetwork,
  { containerId, ifName, pod }: LeakedReservation,
  binDir: string,
): { readonly env: Readonly<Record<string, string>>; readonly stdin: string } {
  const [namespace, name] = pod?.split('/') ?? [];
  const args = ['IgnoreUnknown=1', `K8S_POD_NAMESPACE=${namespace ?? ''}`, `K8S_POD_NAME=${name ?? ''}`].join(';');
  return {
    env: {
      CNI_COMMAND: 'DEL',
      CNI_CONTAINERID: containerId,
      CNI_IFNAME: ifName,
      CNI_NETNS: '',
      CNI_PATH: binDir,
      ...(pod === undefined ? {} : { CNI_ARGS: args }),
    },
    stdin: JSON.stringify(conf),
  };
}
