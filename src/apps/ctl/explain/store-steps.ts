import { never } from '../../../base/errors.ts';
import type { Change } from '../../../datastore/allocation-store.ts';
import type { Allocation, IpBlock } from '../../../model/ip-block.ts';
import type { SlotOperation } from '../../../model/slot-operation.ts';
import type { WorkloadEndpoint } from '../../../model/workload-endpoint.ts';
import { formatAddress } from '../../../net/address.ts';
import { addressAt, formatCidr } from '../../../net/cidr.ts';

/** One change of the datastore. */
export type StoreStep =
  | {
      readonly kind: 'claim-block';
      readonly block: string;
      readonly pool: string | undefined;
      readonly node: string | undefined;
    }
  | {
      readonly kind: 'take-over-block';
      readonly block: string;
      readonly node: string;
      readonly from: string | undefined;
    }
  | {
      readonly kind: 'request-address';
      readonly address: string;
      readonly block: string;
      readonly owner: string | undefined;
    }
  | {
      readonly kind: 'assign-address';
      readonly address: string;
      readonly block: string;
      readonly owner: string | undefined;
      readonly holder: PlannedHolder;
    }
  | {
      readonly kind: 'put-endpoint';
      readonly namespace: string;
      readonly name: string;
      readonly labels: Readonly<Record<string, string>>;
      readonly spec: WorkloadEndpoint['spec'];
    };

/** An allocation without its id and time, which are unknown before the ADD. */
export type PlannedHolder = Omit<Allocation, 'id' | 'at'>;

/**
 * Translates recorded changes into steps. Covers only the changes that an ADD makes. An address that its holder takes again is no
 * change.
 */
export function storeSteps(changes: readonly Change[]): readonly StoreStep[] {
  return changes.flatMap((change): readonly StoreStep[] => {
    switch (change.kind) {
      case 'create-block': {
        const { block, pool } = change;
        const claim = { block: formatCidr(block.cidr), pool: pool?.value.metadata.name, node: block.node };
        return [{ kind: 'claim-block', ...claim }, ...steps(block, change.operations ?? [])];
      }
      case 'update-block':
        return steps(change.before.value, change.operations);
      case 'put-endpoint': {
        const { metadata, spec } = change.endpoint;
        const { name, namespace = 'default', labels = {} } = metadata;
        return [{ kind: 'put-endpoint', namespace, name, labels, spec }];
      }
      case 'delete-block':
      case 'delete-endpoint':
      case 'delete-pool':
        return [];
      default:
        return never(change);
    }
  });
}

function steps(before: IpBlock, operations: readonly SlotOperation[]): readonly StoreStep[] {
  let { node: owner } = before;
  return operations.flatMap((operation): readonly StoreStep[] => {
    const block = formatCidr(before.cidr);
    switch (operation.kind) {
      case 'change-owner': {
        const { from, to: node } = operation;
        owner = node;
        return node === undefined ? [] : [{ kind: 'take-over-block', block, node, from }];
      }
      case 'request':
        return [requestStep(before, operation.ordinal)];
      case 'take': {
        const { id: _, at: __, ...holder } = operation.allocation;
        if (before.slots.get(operation.ordinal)?.handle === holder.handle) return [];
        const address = formatAddress(addressAt(before.cidr, operation.ordinal));
        return [{ kind: 'assign-address', address, block, owner, holder }];
      }
      case 'free':
      case 'preallocate':
      case 'reclaim':
      case 'drop-request':
        return [];
      default:
        return never(operation);
    }
  });
}

/** Returns the step that requests a pre-allocated address from the owner of the block. */
export function requestStep({ cidr, node }: IpBlock, ordinal: number): StoreStep {
  const address = formatAddress(addressAt(cidr, ordinal));
  return { kind: 'request-address', address, block: formatCidr(cidr), owner: node };
}
