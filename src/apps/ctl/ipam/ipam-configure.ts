import { NetplugError } from '../../../base/errors.ts';
import type { IpBlock } from '../../../model/ip-block.ts';
import { IPAM_CONFIGURATION_NAME, type IpamConfigurationSpec } from '../../../model/ipam-configuration.ts';
import { API_VERSION } from '../../../model/resource.ts';
import type { Output } from '../common-options.ts';
import { withStore } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { writeResource } from '../resources/write-resource.ts';
import { renderTable } from '../table.ts';
import { borrowedAddresses } from './borrowed-addresses.ts';
import { renderDocument } from '../render-document.ts';
import { readCluster } from './read-cluster.ts';

export interface ConfigureOptions {
  readonly strictAffinity: boolean | undefined;
  readonly maxBlocks: number | undefined;
  /** Seconds. */
  readonly cooldown: number | undefined;
  /** Action when addresses are borrowed. */
  readonly ifAgainst: 'refuse' | 'go-on';
  readonly output: Output;
}

/** Changes how addresses are managed, and shows how they are. @throws resource/in-use */
export async function ipamConfigure(context: Context, options: ConfigureOptions): Promise<Status> {
  const { io, ports, signal } = context;
  const { strictAffinity, maxBlocks, cooldown, ifAgainst, output } = options;
  const isChange = strictAffinity !== undefined || maxBlocks !== undefined || cooldown !== undefined;
  return withStore(context, isChange ? 'write' : 'read', async (store) => {
    const { blocks, config } = await readCluster(context, store);
    const spec: IpamConfigurationSpec = {
      strictAffinity: strictAffinity ?? config.strictAffinity,
      maxBlocksPerNode: maxBlocks ?? config.maxBlocksPerNode,
      cooldownSeconds: cooldown ?? config.cooldownSeconds,
    };
    if (strictAffinity === true && !config.strictAffinity) refuseBorrowed(blocks, ifAgainst, io);
    for (const text of overLimit(blocks, spec)) io.stderr(`warning: ${text}\n`);
    if (isChange) {
      const metadata = { name: IPAM_CONFIGURATION_NAME };
      const writing = { ...ports, store, signal, mode: 'apply' } as const;
      await writeResource(writing, 'apply', { apiVersion: API_VERSION, kind: 'IPAMConfiguration', metadata, spec });
    }
    io.stdout(renderDocument(spec, output, renderConfiguration));
    return 0;
  });
}

export function renderConfiguration({
  strictAffinity,
  maxBlocksPerNode,
  cooldownSeconds,
}: IpamConfigurationSpec): string {
  return renderTable(
    ['PROPERTY', 'VALUE', 'MEANING'],
    [
      [
        'strictAffinity',
        String(strictAffinity),
        strictAffinity ? 'nodes use blocks of their own only' : 'nodes borrow from others when everything is claimed',
      ],
      ['maxBlocksPerNode', String(maxBlocksPerNode), maxBlocksPerNode === 0 ? 'no limit' : 'per address family'],
      [
        'cooldownSeconds',
        String(cooldownSeconds),
        cooldownSeconds === 0 ? 'no cool-down' : 'before another pod gets a released address',
      ],
    ],
  );
}

/** Borrowed addresses stay as they are, against what strict affinity promises. */
function refuseBorrowed(
  blocks: readonly IpBlock[],
  ifAgainst: ConfigureOptions['ifAgainst'],
  io: Pick<Context['io'], 'stderr'>,
): void {
  const borrowed = borrowedAddresses(blocks);
  if (borrowed.length === 0) return;
  const shown = borrowed.slice(0, 5).map(({ address, holder, node }) => `${address} of ${holder} on node ${node}`);
  const more = borrowed.length > shown.length ? ` and ${String(borrowed.length - shown.length)} more` : '';
  const state = `nodes hold addresses in blocks of others: ${shown.join(', ')}${more}`;
  if (ifAgainst === 'go-on') {
    io.stderr(`warning: ${state}; they stay until their pods are gone\n`);
    return;
  }
  throw new NetplugError('resource/in-use', `Cannot turn strict affinity on: ${state}`, {
    hint: 'Recreate these pods first ("netplugctl ipam show --borrowed"), or leave them as they are with --force',
  });
}

function overLimit(blocks: readonly IpBlock[], { maxBlocksPerNode }: IpamConfigurationSpec): readonly string[] {
  if (maxBlocksPerNode === 0) return [];
  const owned = new Map<string, number>();
  for (const { node, cidr } of blocks) {
    if (node === undefined) continue;
    const key = `node ${node} owns IPv${String(cidr.base.family)}`;
    owned.set(key, (owned.get(key) ?? 0) + 1);
  }
  return [...owned]
    .filter(([, count]) => count > maxBlocksPerNode)
    .map(([key, count]) => `${key} blocks: ${String(count)}, more than the limit; it keeps them`);
}
