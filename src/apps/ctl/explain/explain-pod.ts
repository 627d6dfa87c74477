import type { UsedRange } from '../../../model/used-range.ts';
import { isNetplugError, type NetplugError } from '../../../base/errors.ts';
import { silentLog } from '../../../base/log.ts';
import type { RetryPorts } from '../../../base/back-off.ts';
import { withPodFacts } from '../../../cni/with-pod-facts.ts';
import type { CniCall } from '../../../cni/call.ts';
import type { OrchReader } from '../../../cni/orch-reader.ts';
import { requestOf } from '../../../cni/own-request.ts';
import { isBypassed } from '../../../cni/pod-network.ts';
import type { AllocationStore, Stored } from '../../../datastore/allocation-store.ts';
import { type AssignRequest, dryRunAssign } from '../../../ipam/assign.ts';
import { poolAround, decodePools } from '../../../ipam/choose-pools.ts';
import type { HeldAddress, IpBlock } from '../../../model/ip-block.ts';
import { FAMILIES, type Family, formatAddress } from '../../../net/address.ts';
import { explainPools, type ExplainedPool, type PoolScene } from './explain-pools.ts';
import { type Method, methodsFor } from './methods.ts';
import type { PodHolding } from './pod-holding.ts';
import { requestStep, type StoreStep, storeSteps } from './store-steps.ts';

export interface ExplainPorts extends RetryPorts {
  readonly store: AllocationStore;
  readonly orch: OrchReader;
  /** What the node itself needs. */
  readonly ownRanges: readonly UsedRange[];
}

/** Explanation of the addresses of a pod. */
export interface ExplainedPod {
  readonly held: readonly HeldThen[];
  /** What pods hold that had the name before, and that the orchestrator has no more. */
  readonly heldByEarlier: readonly HeldThen[];
  readonly families: readonly ExplainedFamily[];
  /** Writes of an ADD to the datastore now; undefined when the pod has addresses, or ADD would be refused. */
  readonly wouldDo: readonly StoreStep[] | undefined;
  /** Reason why an ADD would be refused now. */
  readonly refusal: ExplainedRefusal | undefined;
  readonly notes: readonly string[];
}

/** An address that the pod holds, and how it was chosen. */
export interface HeldThen {
  readonly address: string;
  readonly pool: string | undefined;
  readonly node: string;
  readonly since: string;
  readonly containerId: string;
  readonly chosenBy: string;
  readonly considered: readonly string[];
}

export interface ExplainedFamily {
  readonly family: Family;
  readonly isAssigned: boolean;
  readonly methods: readonly Method[];
  readonly pools: readonly ExplainedPool[];
}

export type ExplainedRefusal = Pick<NetplugError, 'code' | 'message' | 'hint'>;

/** The blocks, and what of them the pod of the call holds, or held under its name before. */
export interface PodScene {
  readonly blocks: readonly Stored<IpBlock>[];
  readonly holding: PodHolding;
}

/** Explains the addresses of the pod of a call with the facts that ADD reads. Writes nothing. @throws store/* */
export async function explainPod(
  ports: ExplainPorts,
  call: CniCall,
  { blocks, holding }: PodScene,
): Promise<ExplainedPod> {
  const view = await ports.store.readNodeView(call.node, undefined, call.signal);
  const pools = decodePools(view.pools, ports.ownRanges);
  const heldThen = ({ address, allocation }: HeldAddress): HeldThen => {
    const { node, at, containerId, chosenBy, considered = [] } = allocation;
    const pool = poolAround(pools, address)?.name;
    return { address: formatAddress(address), pool, node, since: at, containerId, chosenBy, considered };
  };
  const held = holding.own.map(heldThen);
  const noNode = `Node "${call.node}" does not exist: pools select it like a node without labels`;
  const notes = [...view.problems, ...(view.node === undefined ? [noNode] : [])];
  const heldByEarlier = holding.earlier.map(heldThen);
  const known = { held, heldByEarlier, families: [], wouldDo: undefined, refusal: undefined, notes };

  const { ipam } = call.config;
  if (ipam.type !== 'netplug-ipam') {
    const plugin = ipam.type === 'other' ? ipam.plugin : ipam.type;
    return {
      ...known,
      notes: [...notes, `addresses come from plugin "${plugin}": pools and annotations have no effect`],
    };
  }
  const asked = await unlessRefused(async () => withPodFacts({ ...ports, log: silentLog }, call));
  const callWithPod = asked.value;
  if (callWithPod === undefined) return { ...known, refusal: asked.refusal };
  const request = requestOf(callWithPod, ipam, undefined);
  if (isBypassed(callWithPod)) {
    const { addresses, text = 'an annotation' } = request.requested;
    const note = `${text} gives ${addresses.map(formatAddress).join(', ')} without the address manager`;
    return { ...known, wouldDo: [], notes: [...notes, note] };
  }
  const { value: next, refusal } =
    held.length > 0 ? {} : await unlessRefused(async () => dryRun(ports, request, callWithPod.signal));
  const taken = held.length > 0 ? held : (next?.assigned ?? []);
  const scene: PoolScene = { view, pools, blocks, request };
  return {
    ...known,
    families: FAMILIES.map((family) => {
      const isOf = ({ address }: { readonly address: string }): boolean => address.includes(':') === (family === 6);
      return explainFamily(scene, { family, call: callWithPod, request, pool: taken.find(isOf)?.pool });
    }),
    wouldDo: next?.steps,
    refusal,
  };
}

interface Attempt {
  readonly assigned: readonly { readonly address: string; readonly pool: string }[];
  readonly steps: readonly StoreStep[];
}

async function dryRun(ports: ExplainPorts, request: AssignRequest, signal: AbortSignal): Promise<Attempt> {
  const plan = await dryRunAssign({ ...ports, ownRanges: () => ports.ownRanges, log: silentLog }, request, signal);
  if (plan.kind === 'ready') {
    const assigned = plan.assigned.map(({ address, pool }) => ({ address: formatAddress(address), pool }));
    return { assigned, steps: storeSteps(plan.changes) };
  }
  return { assigned: [], steps: [requestStep(plan.block.value, plan.ordinal)] };
}

function explainFamily(
  scene: PoolScene,
  { family, call, request, pool }: { family: Family; call: CniCall; request: AssignRequest; pool: string | undefined },
): ExplainedFamily {
  const isAssigned =
    request.pools[family].assign || request.requested.addresses.some((address) => address.family === family);
  if (!isAssigned) return { family, isAssigned, methods: [], pools: [] };
  return { family, isAssigned, methods: methodsFor(family, call, request), pools: poolsOrNone(scene, family, pool) };
}

/** Returns none when a requested pool is unusable: the refusal already explains that. */
function poolsOrNone(scene: PoolScene, family: Family, taken: string | undefined): readonly ExplainedPool[] {
  try {
    return explainPools(scene, family, taken);
  } catch (cause) {
    if (!isNetplugError(cause, 'ipam/pool-not-found', 'ipam/pool-unusable')) throw cause;
    return [];
  }
}

/** Returns the error of ADD as a refusal, but rethrows errors of the datastore. */
async function unlessRefused<T>(work: () => Promise<T>): Promise<{ value?: T; refusal?: ExplainedRefusal }> {
  try {
    return { value: await work() };
  } catch (cause) {
    if (!isNetplugError(cause) || cause.code.startsWith('store/') || cause.code.startsWith('internal/')) throw cause;
    const { code, message, hint } = cause;
    return { refusal: { code, message, hint } };
  }
}
