import { never } from '../../base/errors.ts';
import type { Change } from '../../datastore/allocation-store.ts';
import { blockAfter } from '../../datastore/block-after.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import type { NodeName } from '../../model/names.ts';
import { endpointIdOf, endpointKey } from '../../model/workload-endpoint.ts';
import { formatCidr } from '../../net/cidr.ts';
import type { NodeCache } from './node-cache.ts';

/** Reports whether this node has gained the block since the change was planned: only the view may change it then. */
export function isOfOwnView({ blocks }: NodeCache, change: Change): boolean {
  if (change.kind === 'create-block') return blocks.has(formatCidr(change.block.cidr));
  return change.kind === 'update-block' && blocks.has(formatCidr(change.before.value.cidr));
}

function concerns(node: NodeName, { node: owner, slots }: IpBlock): boolean {
  return owner === node || [...slots.values()].some((held) => held.node === node);
}

/** Reports whether the cache shows what the change has written. */
export function isCached({ node, blocks, endpoints }: NodeCache, change: Change): boolean {
  switch (change.kind) {
    case 'create-block':
      return blocks.has(formatCidr(change.block.cidr));
    case 'update-block': {
      const now = blocks.get(formatCidr(change.before.value.cidr));
      return now === undefined ? !concerns(node, blockAfter(change)) : now.version !== change.before.version;
    }
    case 'delete-block':
      return !blocks.has(formatCidr(change.before.value.cidr));
    case 'put-endpoint':
    case 'delete-pool':
      return true;
    case 'delete-endpoint':
      return endpoints.get(endpointKey(endpointIdOf(change.before.value)))?.version !== change.before.version;
    default:
      return never(change);
  }
}
