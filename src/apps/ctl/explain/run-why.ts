import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { decodeCall } from '../../../cni/decode-call.ts';
import type { OrchReader } from '../../../cni/orch-reader.ts';
import type { Store } from '../../../datastore/store.ts';
import { describeIncomplete } from '../../../dataplane/kernel.ts';
import { describeRateLimit } from '../../../dataplane/rate-limits.ts';
import type { NodeName } from '../../../model/names.ts';
import { type Address, parseAddress, tryParseAddress } from '../../../net/address.ts';
import { explainPaths } from '../../../routing/overruled-routes.ts';
import type { Datastore } from '../../../config/connection.ts';
import { decodeNetconf } from '../../../config/decode.ts';
import type { Output } from '../common-options.ts';
import { withStore } from '../connection.ts';
import { readCluster } from '../ipam/read-cluster.ts';
import type { Context, Status } from '../ports.ts';
import { renderDocument } from '../render-document.ts';
import { explainAddress } from './explain-address.ts';
import { explainPod, type HeldThen } from './explain-pod.ts';
import { findNetconf, type FoundNetconf, readNetconf } from './find-netconf.ts';
import { type FoundPod, holdingOf, type PodHolding } from './pod-holding.ts';
import { type PodPlace, renderExplainedAddress, renderExplainedPod } from './render-explained.ts';
import { invocationOf, parsePodName, thisNode } from './run-plan-add.ts';
import { neededRanges } from './needed-ranges.ts';
import { openOrchOf, withStoreOf } from './with-netconf.ts';

export interface WhyPodOptions {
  readonly netconf: string | undefined;
  readonly node: string | undefined;
  readonly output: Output;
}

/** Runs `why IP` and `why pod NS/NAME`. @throws cli/usage */
export async function runWhy(
  context: Context,
  { what, name }: { readonly what: string; readonly name: string | undefined },
  options: WhyPodOptions,
): Promise<Status> {
  if (what === 'pod' && name !== undefined) return runWhyPod(context, name, options);
  const address = name === undefined ? tryParseAddress(what) : undefined;
  if (address !== undefined) return whyAddress(context, address, options.output);
  throw new NetplugError(
    'cli/usage',
    `Cannot explain "${[what, name].filter(Boolean).join(' ')}": it is neither an address nor a pod`,
    {
      hint: 'Write an address, such as "why 10.0.0.7", or a pod, such as "why pod shop/web-0"',
    },
  );
}

async function whyAddress(context: Context, address: Address, output: Output): Promise<Status> {
  const { io, ports, signal } = context;
  return withStore(context, 'read', async (store) => {
    const cluster = await readCluster(context, store);
    const { endpoints } = await store.listEndpoints(undefined, signal);
    const scene = { ...cluster, endpoints, nowMs: ports.clock.now() };
    const explained = explainAddress(scene, address);
    const reasons = [...explained.reasons, ...(await pathNotes(context, [address]))];
    io.stdout(renderDocument({ ...explained, reasons }, output, renderExplainedAddress));
    return 0;
  });
}

/** Returns status 1 when the pod has no address and an ADD would be refused. @throws cli/usage */
export async function runWhyPod(context: Context, text: string, options: WhyPodOptions): Promise<Status> {
  const { ports, io, signal } = context;
  const pod = parsePodName(text);
  const netconf =
    options.netconf === undefined ? await findNetconf(ports.plugin.confDir) : await readNetconf(options.netconf);
  const given = options.netconf === undefined ? undefined : netconf;
  return withStoreOf(context, given, async (store, datastore) => {
    const { raw, config } = netconf ?? assumed(datastore);
    await using orch = openOrchOf(context, datastore, config.orch);
    const { blocks } = await store.listBlocks(signal);
    const asks = config.policyType === 'orch' ? orch : undefined;
    const found = await findPod(asks, pod, signal);
    const holding = holdingOf(blocks, pod, found);
    const [holder] = holding.own;
    const here = thisNode(context, config);
    const known = placeOf(found, holding) ?? (await placeInRecords(store, { pod, found }, signal));
    const nodeFrom = options.node !== undefined ? 'from --node' : (known?.from ?? 'this machine');
    // Names on the command line and in records are not validated.
    const node = ((options.node ?? known?.node) as NodeName | undefined) ?? here;
    const container = holder?.allocation.containerId;
    const invocation = invocationOf({ pod: text, args: undefined, container, netns: undefined, ifName: 'eth0' });
    const call = decodeCall({ invocation, config, raw }, node, { work: signal, cleanup: signal });
    const ownRanges = await neededRanges(context, { store, node, isHere: node === here });
    const explained = await explainPod({ ...ports, store, orch, ownRanges }, call, { blocks, holding });
    const place: PodPlace = { pod: text, node, nodeFrom, netconf: netconf?.file };
    const notes = [
      ...explained.notes,
      ...missingNotes(ports.plugin.confDir, netconf, asks !== undefined),
      ...(node === here ? await linkNotes(context, explained.held) : []),
      ...(await pathNotes(
        context,
        explained.held.map(({ address }) => parseAddress(address)),
      )),
    ];
    const whole = { ...explained, notes };
    io.stdout(renderDocument({ ...place, ...whole }, options.output, () => renderExplainedPod(place, whole)));
    return whole.held.length === 0 && whole.refusal !== undefined ? 1 : 0;
  });
}

/** Returns what the orchestrator says about the pod; it is not asked without `orch`. @throws store/* */
async function findPod(
  orch: OrchReader | undefined,
  pod: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<FoundPod> {
  if (orch === undefined) return 'unasked';
  try {
    return await orch.readPod(pod, signal);
  } catch (cause) {
    // The explanation reports a missing pod.
    if (!isNetplugError(cause, 'orch/not-found')) throw cause;
    return 'missing';
  }
}

interface Place {
  readonly node: string;
  readonly from: string;
}

const OF_POD = 'the node of the pod';

/** The orchestrator knows where the pod is; records may be of an earlier pod of the name. */
function placeOf(found: FoundPod, { own, earlier }: PodHolding): Place | undefined {
  if (typeof found === 'object')
    return found.nodeName === undefined ? undefined : { node: found.nodeName, from: OF_POD };
  const [holder] = own;
  if (holder !== undefined) return { node: holder.allocation.node, from: OF_POD };
  const [before] = earlier;
  return before === undefined
    ? undefined
    : { node: before.allocation.node, from: 'the node of an earlier pod of this name' };
}

/** Returns the node in the endpoint of the pod. */
async function placeInRecords(
  store: Store,
  { pod, found }: { readonly pod: { readonly namespace: string; readonly name: string }; readonly found: FoundPod },
  signal: AbortSignal,
): Promise<Place | undefined> {
  const { endpoints } = await store.listEndpoints(undefined, signal);
  const endpoint = endpoints.find(
    ({ value: { metadata, spec } }) =>
      spec.pod === pod.name &&
      metadata.namespace === pod.namespace &&
      (typeof found !== 'object' || spec.podUID === found.uid),
  );
  return endpoint === undefined ? undefined : { node: endpoint.value.spec.node, from: OF_POD };
}

/** Returns what the links of the containers lack on this machine, and the limits of their rates. */
async function linkNotes(
  { ports }: Context,
  held: readonly Pick<HeldThen, 'containerId'>[],
): Promise<readonly string[]> {
  const containers = new Set(held.map(({ containerId }) => containerId));
  if (containers.size === 0) return [];
  try {
    const kernel = ports.openKernel();
    const incomplete = await kernel.listIncompleteLinks({ settings: true });
    const limits = await kernel.listRateLimits();
    return [
      ...incomplete.filter(({ link }) => containers.has(link.owner?.containerId ?? '')).map(describeIncomplete),
      ...limits.filter(({ owner }) => containers.has(owner.containerId)).map(describeRateLimit),
    ];
  } catch (cause) {
    if (!isNetplugError(cause, 'kernel/failed')) throw cause;
    return [`the interface of the pod was not looked at: ${cause.message}`];
  }
}

/**
 * Returns what goes before the routes of netplug to the addresses on this machine, which an agent has registered; it may be another
 * node than that of the pod.
 */
async function pathNotes({ ports }: Context, addresses: readonly Address[]): Promise<readonly string[]> {
  if (ports.readRegisteredName() === undefined) return [];
  try {
    const found = await explainPaths(ports.openHostNetwork(), addresses);
    return found.map(({ text, remedy }) => `on this node, ${text}; ${remedy}`);
  } catch (cause) {
    if (!isNetplugError(cause, 'kernel/failed')) throw cause;
    return [`the routes of this node were not looked at: ${cause.message}`];
  }
}

/** Returns a configuration with all defaults for the datastore of the command. */
function assumed(datastore: Datastore): Pick<FoundNetconf, 'raw' | 'config'> {
  const { orchconfig, apiRoot } =
    datastore.type === 'orch' ? datastore.orch : { orchconfig: undefined, apiRoot: undefined };
  const raw = {
    cniVersion: '1.0.0',
    name: 'assumed',
    type: 'netplug',
    ipam: { type: 'netplug-ipam' },
    ...(datastore.type === 'orch' ? { datastore_type: 'orch', policy: { type: 'orch' } } : {}),
    orch: {
      ...(orchconfig === undefined ? {} : { orchconfig }),
      ...(apiRoot === undefined ? {} : { orch_api_root: apiRoot }),
    },
  };
  return { raw, config: decodeNetconf(raw, 'network') };
}

function missingNotes(folder: string, netconf: FoundNetconf | undefined, isAsked: boolean): readonly string[] {
  return [
    ...(netconf === undefined
      ? [`${folder} has no network configuration of netplug: defaults are assumed; use --netconf FILE to pass one`]
      : []),
    ...(isAsked ? [] : ['annotations are not read: policy.type of the network configuration is not "orch"']),
  ];
}
