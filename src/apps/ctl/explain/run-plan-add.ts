import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { decodeInvocation, type Invocation } from '../../../cni/invocation.ts';
import { resolveNodeName } from '../../../cni/node-name.ts';
import type { IpBlock } from '../../../model/ip-block.ts';
import type { NodeName } from '../../../model/names.ts';
import type { Datastore } from '../../../config/connection.ts';
import type { Netconf } from '../../../config/netconf.ts';
import { decodeOfferedBlocks, offer } from '../../../ipam/node/offered-block.ts';
import type { Store } from '../../../datastore/store.ts';
import { datastoreIdOf } from '../../../ipam/node/datastore-id.ts';
import { askAgentOfNode } from '../node/ask-agent-of-node.ts';
import type { Output } from '../common-options.ts';
import type { Context, Status } from '../ports.ts';
import { renderDocument } from '../render-document.ts';
import { readNetconf } from './find-netconf.ts';
import { neededRanges } from './needed-ranges.ts';
import { planAdd } from './plan-add.ts';
import { renderAddPlan } from './render-plan.ts';
import { openOrchOf, withStoreOf } from './with-netconf.ts';

export interface PlanAddOptions {
  readonly netconf: string;
  readonly node: string | undefined;
  /** `NAMESPACE/NAME`. */
  readonly pod: string | undefined;
  /** Text of CNI_ARGS. */
  readonly args: string | undefined;
  readonly container: string | undefined;
  readonly netns: string | undefined;
  readonly ifName: string;
  readonly output: Output;
  /** Path of the agent's socket, unless it is the default. */
  readonly socket: string | undefined;
}

/** Prints the changes that an ADD would make. Changes nothing. */
export async function runPlanAdd(context: Context, options: PlanAddOptions): Promise<Status> {
  const { ports, io, signal } = context;
  const netconf = await readNetconf(options.netconf);
  const { config } = netconf;
  const invocation = invocationOf(options);
  const here = thisNode(context, config);
  // A name on the command line is not validated.
  const node = (options.node as NodeName | undefined) ?? here;
  return withStoreOf(context, netconf, async (store, datastore) => {
    await using orch = openOrchOf(context, datastore, config.orch);
    const kernel = options.netns === undefined ? undefined : ports.openKernel();
    const isHere = node === here;
    const asked = { socket: options.socket, store, type: datastore.type, node };
    const offered = isHere ? await offeredBlocks(context, asked) : undefined;
    const ownRanges = await neededRanges(context, { store, node, isHere });
    const plan = await planAdd(
      { ...ports, store, offered, kernel, orch, ownRanges },
      { netconf, node, invocation },
      signal,
    );
    io.stdout(renderDocument(plan, options.output, renderAddPlan));
    return 0;
  });
}

/** Returns the blocks that the agent of this machine offers; undefined when no agent serves that datastore. */
async function offeredBlocks(
  context: Context,
  {
    socket,
    store,
    type,
    node,
  }: {
    readonly socket: string | undefined;
    readonly store: Store;
    readonly type: Datastore['type'];
    readonly node: NodeName;
  },
): Promise<readonly IpBlock[] | undefined> {
  const { clusterId } = await store.readNodeView(node, undefined, context.signal);
  if (clusterId === undefined) return undefined;
  const question = { kind: 'show-blocks', text: datastoreIdOf(type, clusterId) } as const;
  try {
    return (await askAgentOfNode(context, { socket, question }, decodeOfferedBlocks)).map(offer);
  } catch (cause) {
    if (!isNetplugError(cause, 'agent/unreachable')) throw cause;
    return undefined;
  }
}

/** Returns the node name of this machine. */
export function thisNode({ ports }: Pick<Context, 'ports'>, config: Pick<Netconf, 'nodename'> | undefined): NodeName {
  const { hostname, readRegisteredName } = ports;
  return resolveNodeName({ configured: config?.nodename, hostname, registered: readRegisteredName() });
}

/** @throws cli/usage */
export function parsePodName(text: string): { readonly namespace: string; readonly name: string } {
  const [namespace, name, more] = text.split('/');
  if (namespace !== undefined && namespace !== '' && name !== undefined && name !== '' && more === undefined)
    return { namespace, name };
  throw new NetplugError('cli/usage', `Cannot read "${text}" as the name of a pod`, {
    hint: 'Write NAMESPACE/NAME, such as shop/web-0',
  });
}

/** Returns the ADD of a runtime. @throws cli/usage */
export function invocationOf({
  pod,
  args,
  container,
  netns,
  ifName,
}: Pick<PlanAddOptions, 'pod' | 'args' | 'container' | 'netns' | 'ifName'>): Invocation {
  if (pod !== undefined && args !== undefined && /K8S_POD_NAME(SPACE)?=/.test(args)) {
    throw new NetplugError('cli/usage', 'Cannot combine --pod with a pod in --args', {
      hint: 'Keep one of the two',
    });
  }
  const named = pod === undefined ? undefined : parsePodName(pod);
  const pairs = named === undefined ? [] : [`K8S_POD_NAMESPACE=${named.namespace}`, `K8S_POD_NAME=${named.name}`];
  return decodeInvocation({
    CNI_COMMAND: 'ADD',
    CNI_CONTAINERID: container ?? 'any',
    CNI_IFNAME: ifName,
    CNI_NETNS: netns ?? '(the namespace of the pod)',
    CNI_PATH: '/opt/cni/bin',
    CNI_ARGS: [...(args === undefined ? [] : [args]), ...pairs].join(';'),
  });
}
