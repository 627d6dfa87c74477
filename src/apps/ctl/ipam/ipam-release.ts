import type { AllocationStore } from '../../../datastore/allocation-store.ts';
import { NetplugError } from '../../../base/errors.ts';
import { silentLog } from '../../../base/log.ts';
import { type Allocation, holderOf } from '../../../model/ip-block.ts';
import { formatAddress } from '../../../net/address.ts';
import type { Output } from '../common-options.ts';
import { withStore } from '../connection.ts';
import { readSource } from '../inputs.ts';
import type { Context, Status } from '../ports.ts';
import { reportError } from '../../../base/report-error.ts';
import { type AddressUse, useOf, type UseScene } from './address-use.ts';
import { nameHolder } from './describe-holder.ts';
import { renderDocument } from '../render-document.ts';
import { addressIn } from './read-address.ts';
import { readCluster } from './read-cluster.ts';
import { leakedIn, type ReleaseTarget } from './released-report.ts';
import { carryOutRepair } from './repair.ts';

export interface ReleaseOptions {
  readonly ips: readonly string[];
  /** File with what `ipam check -o json` has printed. */
  readonly report: string | undefined;
  /** Action when the address is still in use. */
  readonly ifUsed: 'refuse' | 'release';
  readonly kernel: 'ask' | 'leave-out';
  readonly output: Output;
}

type Outcome = 'released' | 'not held' | 'held by another since' | 'in use';

interface Released {
  readonly address: string;
  readonly outcome: Outcome;
  readonly holder: string | undefined;
}

/**
 * Releases addresses by allocation id, so that a new holder keeps its address. Refuses addresses in use; returns the
 * status of the first refusal. @throws cli/usage
 */
export async function ipamRelease(context: Context, options: ReleaseOptions): Promise<Status> {
  const { ports, io, signal } = context;
  const targets = [
    ...options.ips.map((text): ReleaseTarget => ({ address: addressIn(text), allocation: undefined })),
    ...(options.report === undefined ? [] : leakedIn(await readSource(options.report))),
  ];
  if (options.ips.length === 0 && options.report === undefined) {
    throw new NetplugError('cli/usage', 'Cannot release: neither --ip nor --from-report is given', {
      hint: 'Give an address with --ip, or the output of "netplugctl ipam check -o json" with --from-report',
    });
  }
  return withStore(context, 'write', async (store) => {
    const { nodes, blocks } = await readCluster(context, store);
    // Endpoints are read after blocks: an allocation that none of them names was in none when it was made.
    const { endpoints, pods } = await store.listEndpoints(undefined, signal);
    const links = options.kernel === 'ask' ? ports.openKernel().listHostLinks() : undefined;
    const scene: UseScene = { nodes, endpoints, pods, links };
    const outcomes: Released[] = [];
    let status: Status = 0;
    for (const target of targets) {
      const holder = blocks.map((block) => holderOf(block, target.address)).find((each) => each !== undefined);
      const use = holder === undefined ? undefined : useOf(scene, target.address, holder);
      const outcome = await settle(context, store, { target, holder, use, options });
      if (outcome === 'in use') status ||= refuse(context, { target, use });
      const address = formatAddress(target.address);
      outcomes.push({ address, outcome, holder: holder === undefined ? undefined : holderText(holder) });
    }
    io.stdout(renderDocument({ addresses: outcomes }, options.output, () => outcomes.map(line).join('')));
    return status;
  });
}

interface Case {
  readonly target: ReleaseTarget;
  readonly holder: Allocation | undefined;
  readonly use: AddressUse | undefined;
  readonly options: ReleaseOptions;
}

async function settle(
  { ports, io, signal }: Context,
  store: AllocationStore,
  { target, holder, use, options }: Case,
): Promise<Outcome> {
  if (holder === undefined) return 'not held';
  if (target.allocation !== undefined && target.allocation !== holder.id) return 'held by another since';
  const address = formatAddress(target.address);
  if (use?.by !== undefined) {
    if (options.ifUsed === 'refuse') return 'in use';
    io.stderr(`warning: ${address} is still used by ${use.by}: the next pod with this address shares it\n`);
  }
  const repair = { kind: 'release', allocation: holder, endpoint: use?.endpoint } as const;
  const done = await carryOutRepair({ ...ports, store, kernel: undefined, log: silentLog }, repair, signal);
  return done === undefined ? 'held by another since' : 'released';
}

function refuse({ io }: Context, { target, use }: Pick<Case, 'target' | 'use'>): Status {
  const address = formatAddress(target.address);
  return reportError(
    io,
    new NetplugError('resource/in-use', `Cannot release ${address}: ${use?.by ?? 'something'} uses it`, {
      hint: 'Delete the pod; --force frees the address although it is used, and two pods may then have it',
      facts: { address },
    }),
  );
}

function line({ address, outcome, holder }: Released): string {
  return `${address}: ${outcome}${holder === undefined ? '' : ` (${holder})`}\n`;
}

function holderText(holder: Allocation): string {
  return `${nameHolder(holder)} on node ${holder.node} since ${holder.at}`;
}
