import type { UsedRange } from '../model/used-range.ts';
import { isNetplugError, NetplugError, reasonOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { backOffConflict, type RetryPorts } from '../base/back-off.ts';
import {
  type AllocationStore,
  type Change,
  endpointBefore,
  type NodeView,
  type Outcome,
} from '../datastore/allocation-store.ts';
import { type Allocation, type ChosenBy, heldAddresses, MAX_HOLDER_BYTES } from '../model/ip-block.ts';
import type { PoolUse } from '../model/ip-pool.ts';
import { type Attachment, handleOf, isSameHolder, type NodeName } from '../model/names.ts';
import { type EndpointId, isSameSpec, type WorkloadEndpoint } from '../model/workload-endpoint.ts';
import { type Address, FAMILIES, type Family, formatAddress, sameAddress } from '../net/address.ts';
import { formatCidr } from '../net/cidr.ts';
import type { PoolChoice } from '../config/netconf.ts';
import { choosePools, type Pool, decodePools } from './choose-pools.ts';
import { release, undoneEndpoint } from './release.ts';
import { replacedEndpoint } from './replaced-endpoint.ts';
import { requestAddress } from './request-address.ts';
import {
  type AssignPlan,
  type PlanInput,
  type AssignedAddress,
  planAssign,
  type AddressRequest,
} from './plan-assign.ts';

export interface AssignRequest {
  readonly node: NodeName;
  readonly attachment: Attachment;
  /** A workload unless given. */
  readonly use?: PoolUse;
  readonly pod: PodIdentity | undefined;
  readonly pools: Readonly<Record<Family, PoolChoice>>;
  /** Specific addresses, at most one per family; `rule` and `text` say where the user requested them. */
  readonly requested: { readonly addresses: readonly Address[]; readonly rule: ChosenBy; readonly text?: string };
  /** The endpoint to write in the same transaction. */
  readonly endpoint?: RequestedEndpoint;
  /** Called, where a store tells, when the addresses are decided and only have to survive a crash. Others may be assigned all the same. */
  readonly onDecided?: (assigned: readonly AssignedAddress[]) => void;
}

export interface RequestedEndpoint {
  readonly id: EndpointId;
  /** Returns the record of the endpoint, which has this id. */
  readonly withAddresses: (assigned: readonly AssignedAddress[]) => WorkloadEndpoint;
}

export interface PodIdentity {
  readonly namespace: string;
  readonly name: string;
  /** In the API: of a static pod, that of its mirror pod. */
  readonly uid: string | undefined;
  /** Uid in the runtime, for a static pod. Its address outlives mirror pods. */
  readonly staticUid?: string | undefined;
}

export interface IpamPorts extends RetryPorts {
  readonly store: AllocationStore;
  readonly log: Log;
  /** Returns what the node itself needs, over which nothing is assigned; nothing unless given. */
  readonly ownRanges?: (() => readonly UsedRange[]) | undefined;
}

/** `signal` aborts the work; `cleanupSignal`, which aborts later, bounds writes and undo steps that were started. */
export interface Limits {
  readonly signal: AbortSignal;
  readonly cleanupSignal: AbortSignal;
}

/**
 * Assigns one address per requested family, all or none, and writes the endpoint with them. A second call for the same
 * attachment returns the same addresses. Retries on conflicts with concurrent writers until the signal aborts. Waits
 * for a write that was sent even when the signal aborts meanwhile; undoes a write whose outcome stays unknown.
 * @throws ipam/exhausted, ipam/pool-not-found, ipam/pool-unusable, ipam/address-taken, ipam/address-not-in-pool,
 * ipam/strict-affinity, ipam/pre-allocated, ipam/request-invalid, store/conflict, store/locked, store/unavailable,
 * agent/busy
 */
export async function assign(
  ports: IpamPorts,
  request: AssignRequest,
  limits: Limits,
): Promise<readonly AssignedAddress[]> {
  const { signal } = limits;
  const allocations = draftAllocations(ports, request);
  let givenUp = lostToOthers;
  for (let attempt = 0; ; attempt += 1) {
    await backOffOrTimeOut(ports, { attempt, givenUp }, signal);
    using turn = await ports.store.takeTurn?.(signal);
    const view = await ports.store.readNodeView(request.node, request.endpoint?.id, signal);
    if (attempt === 0) warnAbout(ports.log, request, view);
    const plan = await planWithReads(ports, { request, view, allocations }, signal);
    if (plan.kind === 'need-request') {
      // Another node answers; meanwhile other calls may work.
      turn?.[Symbol.dispose]();
      givenUp = lostToOthers;
      await requestAddress(ports, plan, signal);
      continue;
    }
    const { assigned, changes } = plan;
    if (!(await isConfirmed(ports.log, { request, view, assigned }, signal))) {
      givenUp = unconfirmed;
      continue;
    }
    givenUp = lostToOthers;
    await keepReplaced(ports.store, { request, view, assigned }, limits.cleanupSignal);
    const written = [...changes, ...endpointChanges(request, view, assigned)];
    if (written.length === 0 || (await commit(ports, { request, written, assigned, turn }, limits)) === 'committed')
      return assigned;
    ports.log.debug('assignment conflicted', { node: request.node, attempt });
  }
}

/**
 * Reports whether the datastore still records the addresses that the view shows as held, and no pending write takes them
 * back: another process may have released them since, or the caller that they were assigned for has given up. While the
 * datastore is unavailable, no other process can release an address.
 */
async function isConfirmed(
  log: Log,
  { request, view, assigned }: PlannedAssignment,
  signal: AbortSignal,
): Promise<boolean> {
  const { node, attachment } = request;
  const { latest, certaintyOf } = view;
  const held = assigned.filter((own) => !own.isNew && certaintyOf?.(own) !== 'decided');
  if (latest === undefined || held.length === 0) return true;
  const isKept = (): boolean => held.every((own) => certaintyOf?.(own) !== 'revocable');
  if (!isKept()) return false;
  const holder = { node, handle: handleOf(attachment) };
  try {
    const { owned, borrowed } = await latest(signal);
    const recorded = [...owned, ...borrowed].flatMap(({ value }) =>
      heldAddresses(value, (allocation) => isSameHolder(allocation, holder)),
    );
    // The datastore shows a write until it is taken back, which may have begun meanwhile.
    return held.every((own) => recorded.some(({ address }) => sameAddress(address, own.address))) && isKept();
  } catch (cause) {
    if (!isNetplugError(cause, 'store/unavailable')) throw cause;
    log.debug('held address not confirmed by the datastore', { node, ...attachment });
    return isKept();
  }
}

/** What was planned on a view for a request. */
interface PlannedAssignment {
  readonly request: AssignRequest;
  readonly view: NodeView;
  readonly assigned: readonly AssignedAddress[];
}

interface PendingAssignment {
  readonly request: AssignRequest;
  readonly written: readonly Change[];
  readonly assigned: readonly AssignedAddress[];
  readonly turn: Disposable | undefined;
}

async function commit(ports: IpamPorts, draft: PendingAssignment, { signal, cleanupSignal }: Limits): Promise<Outcome> {
  signal.throwIfAborted();
  try {
    return await ports.store.commit(draft.written, cleanupSignal, () => draft.request.onDecided?.(draft.assigned));
  } catch (cause) {
    // The release takes a turn of its own.
    draft.turn?.[Symbol.dispose]();
    await releaseUnknown(ports, draft, cleanupSignal);
    throw cause;
  }
}

/** Releases what a write of unknown outcome may have assigned. If that fails too, DEL, GC or the next ADD finds it. */
async function releaseUnknown(
  ports: IpamPorts,
  { request, written, assigned }: PendingAssignment,
  signal: AbortSignal,
): Promise<void> {
  const { node, attachment } = request;
  const endpoint = written.find((change) => change.kind === 'put-endpoint')?.endpoint;
  const ids = new Set(assigned.flatMap(({ isNew, allocation }) => (isNew ? allocation.id : [])));
  if (ids.size === 0) return;
  try {
    await release(
      ports,
      {
        node,
        which: ({ id }) => ids.has(id),
        isUndo: true,
        ...(endpoint === undefined ? {} : undoneEndpoint(endpoint)),
      },
      signal,
    );
  } catch (cause) {
    const reason = reasonOf(cause);
    ports.log.warning('addresses may be leaked by a write of unknown outcome', { node, ...attachment, reason });
  }
}

/** Returns the plan that `assign` would carry out now, and writes nothing. @throws what `assign` throws */
export async function dryRunAssign(
  ports: IpamPorts,
  request: AssignRequest,
  signal: AbortSignal,
): Promise<Extract<AssignPlan, { kind: 'ready' | 'need-request' }>> {
  const view = await ports.store.readNodeView(request.node, undefined, signal);
  return planWithReads(ports, { request, view, allocations: draftAllocations(ports, request) }, signal);
}

interface PlanQuestion {
  readonly request: AssignRequest;
  readonly view: NodeView;
  readonly allocations: ReadonlyMap<Family, Allocation>;
}

async function planWithReads(
  { store, ownRanges, clock }: Pick<IpamPorts, 'store' | 'ownRanges' | 'clock'>,
  question: PlanQuestion,
  signal: AbortSignal,
): Promise<Extract<AssignPlan, { kind: 'ready' | 'need-request' }>> {
  const { request, view } = question;
  const pools = decodePools(view.pools, ownRanges?.());
  const requests = requestsOf(question, pools);
  let input: PlanInput = { view, pools, nowMs: clock.now(), extraBlocks: [], readCidrs: new Set() };
  for (;;) {
    const plan = planAssign(input, request.node, requests);
    if (plan.kind === 'ready' || plan.kind === 'need-request') return plan;
    if (plan.kind === 'need-claims') {
      input = { ...input, claims: await store.listClaims(plan.within, signal) };
    } else {
      const blocks = await store.getBlocks(plan.cidrs, signal);
      const readCidrs = new Set([...input.readCidrs, ...plan.cidrs.map(formatCidr)]);
      input = { ...input, readCidrs, extraBlocks: [...input.extraBlocks, ...blocks] };
    }
  }
}

function requestsOf({ request, view, allocations }: PlanQuestion, pools: readonly Pool[]): AddressRequest[] {
  const { pools: choices, requested, node, use = 'Workload' } = request;
  const nodeLabels = view.node?.metadata.labels ?? {};
  const requests: AddressRequest[] = [];
  for (const family of FAMILIES) {
    const address = requested.addresses.find((asked) => asked.family === family);
    const allocation = allocations.get(family);
    const choice = choices[family];
    if (allocation === undefined || (address === undefined && !choice.assign)) continue;
    // A specific address determines its pool, and the requested pools are ignored (map: ann-priority).
    const asked = address === undefined ? choice : {};
    const { pools: refs, askedBy } = { pools: undefined, askedBy: undefined, ...asked };
    const query = { family, refs, nodeLabels, use, ...(askedBy === undefined ? {} : { askedBy }) } as const;
    const selection = choosePools(pools, query);
    const chosenBy = address === undefined ? selection.chosenBy : requested.rule;
    const by = requested.text === undefined ? {} : { askedBy: requested.text };
    requests.push({ family, selection, address, ...by, allocation: { ...allocation, chosenBy } });
  }
  if (requests.length > 0) return requests;
  throw new NetplugError(
    'ipam/request-invalid',
    `Cannot assign an address on node "${node}": no address family is requested`,
    {
      hint: 'Set ipam.assign_ipv4 or ipam.assign_ipv6 to "true"',
    },
  );
}

/** Allocation ids are drawn once, so that a retry after an unknown outcome is recognised as the same attempt. */
function draftAllocations({ clock, random }: RetryPorts, request: AssignRequest): ReadonlyMap<Family, Allocation> {
  const { attachment, node, pod, requested } = request;
  for (const family of FAMILIES) {
    const asked = requested.addresses.filter((address) => address.family === family);
    if (asked.length > 1) {
      throw new NetplugError(
        'ipam/request-invalid',
        `Cannot assign ${asked.map(formatAddress).join(' and ')}: more than one IPv${String(family)} address is requested`,
        { hint: 'Request at most one address per family' },
      );
    }
  }
  const at = new Date(clock.now()).toISOString();
  const uid = pod?.staticUid ?? pod?.uid;
  const identity =
    pod === undefined ? {} : { namespace: pod.namespace, pod: pod.name, ...(uid === undefined ? {} : { podUid: uid }) };
  const holder = { handle: handleOf(attachment), node, ...attachment, ...identity, at };
  assertFits(holder);
  return new Map(FAMILIES.map((family) => [family, { id: random.id(), ...holder, chosenBy: 'node-selector' }]));
}

/** Refuses names that are too long for the slot of a block: see MAX_HOLDER_BYTES. */
function assertFits(holder: Omit<Allocation, 'id' | 'chosenBy'>): void {
  const bytes = new TextEncoder().encode(JSON.stringify(holder)).length;
  if (bytes <= MAX_HOLDER_BYTES) return;
  const { network, containerId, namespace = '', pod = '', podUid = '' } = holder;
  const lengths = Object.entries({ network, containerId, namespace, pod, podUid }).map(
    ([name, text]) => `${name} ${String(text.length)}`,
  );
  throw new NetplugError(
    'ipam/request-invalid',
    `Cannot assign an address: the names of the attachment take ${String(bytes)} bytes, at most ${String(MAX_HOLDER_BYTES)} fit (characters: ${lengths.join(', ')})`,
    { hint: 'Shorten the longest of them, such as the "name" of the network configuration' },
  );
}

function endpointChanges(request: AssignRequest, view: NodeView, assigned: readonly AssignedAddress[]): Change[] {
  const endpoint = request.endpoint?.withAddresses(assigned);
  if (endpoint === undefined) return [];
  const isWritten = view.endpoint !== undefined && isSameSpec(view.endpoint.value, endpoint);
  return isWritten ? [] : [{ kind: 'put-endpoint', endpoint, ...endpointBefore(view.endpoint, view) }];
}

/** Written first and alone, because it stays when the assignment is undone. */
async function keepReplaced(
  store: AllocationStore,
  { request, view, assigned }: PlannedAssignment,
  signal: AbortSignal,
): Promise<void> {
  if (view.endpoint === undefined || request.endpoint === undefined) return;
  const endpoint = replacedEndpoint(view, request.endpoint.withAddresses(assigned));
  if (endpoint !== undefined) await store.commit([{ kind: 'put-endpoint', endpoint }], signal);
}

function warnAbout(log: Log, { node }: AssignRequest, view: NodeView): void {
  for (const problem of view.problems) log.warning('record skipped', { problem });
  if (view.node === undefined) log.warning('node resource missing, selects like a node without labels', { node });
}

type GivenUp = (tries: number, cause: unknown) => NetplugError;

async function backOffOrTimeOut(
  ports: RetryPorts,
  { attempt, givenUp }: { readonly attempt: number; readonly givenUp: GivenUp },
  signal: AbortSignal,
): Promise<void> {
  try {
    await backOffConflict(ports, attempt, signal);
  } catch (cause) {
    throw attempt === 0 ? cause : givenUp(attempt, cause);
  }
}

function lostToOthers(tries: number, cause: unknown): NetplugError {
  return new NetplugError('store/conflict', `Cannot write the address: ${String(tries)} tries lost to other writers`, {
    hint: 'Try again; if it persists, look for a process that constantly writes the blocks of this node',
    cause,
  });
}

function unconfirmed(tries: number, cause: unknown): NetplugError {
  return new NetplugError(
    'agent/busy',
    `Cannot return the address of this attachment yet: after ${String(tries)} looks an earlier write for it may still be taken back`,
    {
      hint: 'Try again in a moment; if it persists, look whether the datastore answers, and restart netplug-agent on this node',
      cause,
    },
  );
}
