import { never } from '../../../base/errors.ts';
import type { Change } from '../../../datastore/allocation-store.ts';
import type { Allocation, IpBlock } from '../../../model/ip-block.ts';
import type { WorkloadEndpoint } from '../../../model/workload-endpoint.ts';
import { formatAddress } from '../../../net/address.ts';
import { addressAt, formatCidr } from '../../../net/cidr.ts';
import { asksForStock } from './recording-store.ts';

/** One thing written to the datastore. */
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
      readonly kind: 'ask-for-stock';
      readonly address: string;
      readonly block: string;
      readonly owner: string | undefined;
    }
  | {
      readonly kind: 'take-address';
      readonly address: string;
      readonly block: string;
      readonly owner: string | undefined;
      readonly holder: Holder;
    }
  | {
      readonly kind: 'put-endpoint';
      readonly namespace: string;
      readonly name: string;
      readonly labels: Readonly<Record<string, string>>;
      readonly spec: WorkloadEndpoint['spec'];
    };

/** What is known of a holder beforehand: not the id of the allocation, nor the moment. */
export type Holder = Omit<Allocation, 'id' | 'at'>;

/** What the datastore is told, one object a step. Only what an ADD writes. */
export function storeSteps(changes: readonly Change[]): readonly StoreStep[] {
  return changes.flatMap((change): readonly StoreStep[] => {
    switch (change.kind) {
      case 'create-block': {
        const { block, pool } = change;
        const claim = { block: formatCidr(block.cidr), pool: pool?.value.metadata.name, node: block.node };
        return [{ kind: 'claim-block', ...claim }, ...taken(block, new Map())];
      }
      case 'update-block':
        return asksForStock(change) ? requests(change) : updates(change);
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

type Update = Extract<Change, { kind: 'update-block' }>;

function updates({ before: { value: before }, after }: Update): readonly StoreStep[] {
  const block = formatCidr(after.cidr);
  const isTakenOver = after.node !== undefined && after.node !== before.node;
  const takeOver: StoreStep[] = isTakenOver
    ? [{ kind: 'take-over-block', block, node: after.node, from: before.node }]
    : [];
  return [...takeOver, ...taken(after, before.slots)];
}

function requests({ before: { value: before }, after }: Update): readonly StoreStep[] {
  return [...after.wanted].filter((ordinal) => !before.wanted.has(ordinal)).map((each) => stockStep(after, each));
}

/** Asking the agent of the block's owner for one address of its stock. */
export function stockStep({ cidr, node }: IpBlock, ordinal: number): StoreStep {
  const address = formatAddress(addressAt(cidr, ordinal));
  return { kind: 'ask-for-stock', address, block: formatCidr(cidr), owner: node };
}

function taken(block: IpBlock, before: IpBlock['slots']): readonly StoreStep[] {
  return [...block.slots].flatMap(([ordinal, allocation]): readonly StoreStep[] => {
    if (before.get(ordinal)?.id === allocation.id) return [];
    const { id: _, at: __, ...holder } = allocation;
    return [
      {
        kind: 'take-address',
        address: formatAddress(addressAt(block.cidr, ordinal)),
        block: formatCidr(block.cidr),
        owner: block.node,
        holder,
      },
    ];
  });
}
