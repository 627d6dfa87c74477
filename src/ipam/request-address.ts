import { NetplugError } from '../base/errors.ts';
import type { Stored } from '../datastore/allocation-store.ts';
import type { IpBlock } from '../model/ip-block.ts';
import { formatAddress } from '../net/address.ts';
import { addressAt } from '../net/cidr.ts';
import type { IpamPorts } from './assign.ts';

/** A running agent answers in milliseconds. */
const TIMEOUT_MS = 3000;
const PERIOD_MS = 20;

/**
 * Requests a pre-allocated address from the agent of the block's owner, and waits until the agent has reclaimed it or
 * assigned it to a pod of its own. @throws ipam/pre-allocated when the agent does not answer, store/*
 */
export async function requestAddress(
  { store, clock, log }: IpamPorts,
  { block, ordinal }: { readonly block: Stored<IpBlock>; readonly ordinal: number },
  signal: AbortSignal,
): Promise<void> {
  const { cidr, node } = block.value;
  const preallocationId = block.value.preallocated.get(ordinal);
  const address = formatAddress(addressAt(cidr, ordinal));
  log.info('pre-allocated address requested', { address, owner: node });
  for (const untilMs = clock.monotonic() + TIMEOUT_MS; clock.monotonic() < untilMs;) {
    const [now] = await store.getBlocks([cidr], signal);
    if (preallocationId === undefined || now?.value.preallocated.get(ordinal) !== preallocationId) return;
    if (!now.value.requested.has(ordinal)) {
      const request = { kind: 'request', block: cidr, ordinal, id: preallocationId } as const;
      await store.commit([{ kind: 'update-block', before: now, operations: [request] }], signal);
    }
    await clock.sleep(PERIOD_MS, signal);
  }
  throw new NetplugError(
    'ipam/pre-allocated',
    `Cannot assign ${address}: the agent of node "${node ?? ''}" has pre-allocated it and does not answer`,
    { hint: 'Start netplug-agent on that node' },
  );
}
