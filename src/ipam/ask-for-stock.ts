import { NetplugError } from '../base/errors.ts';
import type { Stored } from '../datastore/allocation-store.ts';
import type { IpBlock } from '../model/ip-block.ts';
import { formatAddress } from '../net/address.ts';
import { addressAt } from '../net/cidr.ts';
import type { IpamPorts } from './assign.ts';

/** An agent that lives answers in milliseconds. */
const PATIENCE_MS = 3000;
const PERIOD_MS = 20;

/**
 * Asks the agent of the block's owner to give one address of its stock back, and waits until it has, or has given it to
 * a pod of its own. @throws ipam/set-aside when it does not answer, store/*
 */
export async function askForStock(
  { store, clock, log }: IpamPorts,
  { block, ordinal }: { readonly block: Stored<IpBlock>; readonly ordinal: number },
  signal: AbortSignal,
): Promise<void> {
  const { cidr, node } = block.value;
  const stockId = block.value.stock.get(ordinal);
  const address = formatAddress(addressAt(cidr, ordinal));
  log.info('asks for an address that is set aside', { address, owner: node });
  for (const untilMs = clock.monotonic() + PATIENCE_MS; clock.monotonic() < untilMs;) {
    const [now] = await store.getBlocks([cidr], signal);
    if (stockId === undefined || now?.value.stock.get(ordinal) !== stockId) return;
    if (!now.value.wanted.has(ordinal)) {
      const request = { kind: 'request', block: cidr, ordinal, id: stockId } as const;
      await store.commit([{ kind: 'update-block', before: now, operations: [request] }], signal);
    }
    await clock.sleep(PERIOD_MS, signal);
  }
  throw new NetplugError(
    'ipam/set-aside',
    `Cannot assign ${address}: the agent of node "${node ?? ''}" has set it aside and does not give it back`,
    { hint: 'Start netplug-agent on that node again, or any pod: whoever serves it there gives the stock back' },
  );
}
