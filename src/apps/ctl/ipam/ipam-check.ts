import type { ResourceStore } from '../../../datastore/resource-store.ts';
import type { AllocationStore } from '../../../datastore/allocation-store.ts';
import { join } from 'node:path';
import { silentLog } from '../../../base/log.ts';
import { AttachmentFiles } from '../../../cni/attachment-files.ts';
import type { Kernel } from '../../../dataplane/kernel.ts';
import { formatAddress } from '../../../net/address.ts';
import type { Datastore } from '../../../config/connection.ts';
import { findUnconnectedPods } from '../../../install/host/unconnected-pods.ts';
import { readRunningPods } from './read-running-pods.ts';
import { interfaceKey } from '../../../model/names.ts';
import { attachmentsInJournals } from '../../../ipam/node/orphaned-journals.ts';
import { checkIpam, confirmed } from './check-ipam.ts';
import { readDelegated } from './read-delegated.ts';
import { withStore } from '../connection.ts';
import { type IpamFinding, type IpamState, isOf, type LocalState, shownFinding } from './finding.ts';
import type { Output } from '../common-options.ts';
import type { Context, Status } from '../ports.ts';
import { jsonText } from '../render-document.ts';
import { carryOutRepair, type RepairPorts } from './repair.ts';
import { reportError } from '../../../base/report-error.ts';
import { counted } from '../../../base/counted.ts';

/** Time between the two reads, so that changes in progress show different findings. */
const SECOND_READ_MS = 500;

export interface CheckOptions {
  readonly mode: 'list' | 'fix';
  /** Whether allocations without proof either way count as leaks. */
  readonly unconfirmed: 'note' | 'leak';
  /** Whether the kernel of this machine is asked too. */
  readonly kernel: 'ask' | 'leave-out';
  readonly node: string | undefined;
  /** Younger allocations may belong to an ADD that is still under way. */
  readonly graceSeconds: number;
  readonly output: Output;
}

/** Lists inconsistencies and, with --fix, releases leaked addresses. Returns 1 when findings are left. */
export async function ipamCheck(context: Context, options: CheckOptions): Promise<Status> {
  const kernel = options.kernel === 'ask' ? context.ports.openKernel() : undefined;
  return withStore(context, options.mode === 'fix' ? 'write' : 'read', async (store, datastore) => {
    const here = kernel === undefined ? undefined : { kernel, datastore };
    const { state, findings } = await lookTwice(context, store, { here, options });
    const isNote = (finding: IpamFinding): boolean =>
      isOf(finding, 'unconfirmed-address') && options.unconfirmed === 'note';
    const notes = findings.filter(isNote);
    const faults = findings.filter((finding) => !isNote(finding));
    const ports = { ...context.ports, store, kernel, log: silentLog };
    const outcomes: Outcome[] = [];
    for (const finding of faults) {
      const done = options.mode === 'fix' ? await repaired(context, ports, finding) : undefined;
      outcomes.push({ finding, done });
    }
    report(context, { state, notes, outcomes, output: options.output });
    return outcomes.every(({ done }) => done !== undefined) ? 0 : 1;
  });
}

interface LookedAt {
  /** This machine, and the datastore by which pods of it can be found; undefined leaves both out. */
  readonly here: { readonly kernel: Kernel; readonly datastore: Datastore } | undefined;
  readonly options: Pick<CheckOptions, 'node' | 'graceSeconds'>;
}

/** Returns the findings that two reads, a moment apart, both show. */
export async function lookTwice(
  context: Context,
  store: AllocationStore & ResourceStore,
  from: LookedAt,
): Promise<{ readonly state: IpamState; readonly findings: readonly IpamFinding[] }> {
  const state = await readState(context, store, from);
  const first = checkIpam(state);
  if (first.length === 0) return { state, findings: first };
  await context.ports.clock.sleep(SECOND_READ_MS, context.signal);
  return { state, findings: confirmed(first, checkIpam(await readState(context, store, from))) };
}

interface Outcome {
  readonly finding: IpamFinding;
  /** Repair that was made; undefined when the finding is left. */
  readonly done: string | undefined;
}

/** Returns the repair that was made; undefined when there is none, or it failed, which is reported. */
async function repaired(
  { io, signal }: Context,
  ports: RepairPorts,
  { repair, subject }: IpamFinding,
): Promise<string | undefined> {
  if (repair === undefined) return undefined;
  try {
    // Undefined: another program has repaired it in the meantime.
    return (await carryOutRepair(ports, repair, signal)) ?? 'gone in the meantime';
  } catch (cause) {
    reportError(io, cause, subject);
    return undefined;
  }
}

/** Blocks are read before endpoints and nodes: an allocation that none of them names was in none when it was made. */
async function readState(
  context: Context,
  store: AllocationStore & ResourceStore,
  { here, options }: LookedAt,
): Promise<IpamState> {
  const { ports, io, signal } = context;
  const { blocks, problems: unreadableBlocks } = await store.listBlocks(signal);
  const { endpoints, pods, problems: unreadableEndpoints } = await store.listEndpoints(undefined, signal);
  const pools = await store.listResources('IPPool', signal);
  const nodes = await store.listResources('Node', signal);
  const own = [ports.readRegisteredName(), ports.hostname].filter((name) => name !== undefined);
  const links = here?.kernel.listHostLinks();
  const isHere = options.node === undefined || isThisMachine(options.node, { links, endpoints });
  if (!isHere && !own.includes(options.node)) {
    const why = `no interface of this machine belongs to node "${options.node}"`;
    io.stderr(`warning: ${why}: the interfaces of this machine are not compared with its addresses\n`);
  }
  const names = new Set([...own, ...(options.node !== undefined && isHere ? [options.node] : [])]);
  const inJournals = attachmentsInJournals(join(ports.machine.stateDir, 'journal'));
  const { records } = await new AttachmentFiles(join(ports.machine.stateDir, 'attachments')).list();
  const attached = new Set([...inJournals, ...records.map(({ attachment }) => interfaceKey(attachment))]);
  const local: LocalState | undefined =
    here === undefined || links === undefined
      ? undefined
      : {
          nodes: names,
          links,
          attached,
          used: await usedAddresses(here.kernel, links),
          unconnected: await findUnconnectedPods(here.kernel, ports.machine.resultsDir),
          delegated: await readDelegated(ports, { links, records }),
          running: await readRunningPods(context, { datastore: here.datastore, nodes: names }),
        };
  return {
    blocks: blocks.map(({ value }) => value),
    endpoints,
    pods,
    pools: pools.resources,
    nodes: nodes.problems.length === 0 ? nodes.resources : undefined,
    unreadable: [...unreadableBlocks, ...unreadableEndpoints, ...pools.problems, ...nodes.problems],
    local,
    nowMs: ports.clock.now(),
    graceMs: options.graceSeconds * 1000,
  };
}

async function usedAddresses(kernel: Kernel, links: LocalState['links']): Promise<ReadonlySet<string>> {
  const routed = await kernel.listPodAddresses();
  return new Set(
    [...links.flatMap(({ addresses }) => addresses), ...routed.map(({ address }) => address)].map(formatAddress),
  );
}

/**
 * Reports whether a node name from the command line is that of this machine: at least one interface here must belong to
 * it. The pods of another machine would all look dead from here.
 */
function isThisMachine(
  node: string,
  { links = [], endpoints }: { links: LocalState['links'] | undefined; endpoints: IpamState['endpoints'] },
): boolean {
  return endpoints.some(
    ({ value: { spec } }) =>
      spec.node === node &&
      links.some(({ owner }) => owner?.containerId === spec.containerID && owner.ifName === spec.endpoint),
  );
}

interface Result {
  readonly state: IpamState;
  readonly notes: readonly IpamFinding[];
  readonly outcomes: readonly Outcome[];
  readonly output: CheckOptions['output'];
}

function report({ io }: Context, { state, notes, outcomes, output }: Result): void {
  const left = outcomes.filter(({ done }) => done === undefined);
  const held = state.blocks.reduce((sum, { slots }) => sum + slots.size, 0);
  if (output === 'json') {
    const findings = outcomes.map(({ finding, done }) => {
      const { subject, repair } = finding;
      const allocation = repair?.kind === 'release' ? repair.allocation.id : undefined;
      return { ...shownFinding(finding), subject, allocation, isRepairable: repair !== undefined, done };
    });
    const plain = notes.map((finding) => ({ ...shownFinding(finding), subject: finding.subject }));
    const counts = { pools: state.pools.length, blocks: state.blocks.length, held, endpoints: state.endpoints.length };
    io.stdout(jsonText({ counts, findings, notes: plain, left: left.length }));
    return;
  }
  for (const { finding, done } of outcomes) io.stdout(`${done ?? 'found'}: ${finding.found}\n`);
  for (const { found } of notes) io.stdout(`note: ${found}\n`);
  const read = [
    counted(state.pools.length, 'pool'),
    counted(state.blocks.length, 'block'),
    counted(held, 'held address', 'held addresses'),
    counted(state.endpoints.length, 'endpoint'),
    ...(state.local === undefined ? [] : [`${counted(state.local.links.length, 'interface')} of this node`]),
  ];
  io.stdout(
    `checked ${read.join(', ')}: ${left.length === 0 ? 'nothing wrong is left' : `${counted(left.length, 'finding')} left`}\n`,
  );
  const isRepairable = left.some(({ finding }) => finding.repair !== undefined);
  if (isRepairable) io.stderr('  hint: "netplugctl ipam check --fix" frees what leaked\n');
}
