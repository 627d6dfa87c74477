import type { CallStore } from '../../../datastore/store.ts';
import type { AllocationStore } from '../../../datastore/allocation-store.ts';
import type { Log } from '../../../base/log.ts';
import type { RetryPorts } from '../../../base/back-off.ts';
import { Stopwatch } from '../../../base/stopwatch.ts';
import { NetplugError } from '../../../base/errors.ts';
import { type AttachmentRecords, memoryRecords } from '../../../cni/attachment-records.ts';
import type { CniPorts } from '../../../cni/call.ts';
import { decodeCall } from '../../../cni/decode-call.ts';
import type { ExecDelegate } from '../../../cni/delegate.ts';
import type { Invocation } from '../../../cni/invocation.ts';
import { memoryKeptNotes } from '../../../cni/kept-notes.ts';
import { renderResult } from '../../../cni/result.ts';
import { serveNetwork } from '../../../cni/serve.ts';
import type { OrchReader } from '../../../cni/orch-reader.ts';
import type { Kernel } from '../../../dataplane/kernel.ts';
import { tryParseJson } from '../../../base/try-parse-json.ts';
import type { IpBlock } from '../../../model/ip-block.ts';
import type { UsedRange } from '../../../model/used-range.ts';
import type { NodeName } from '../../../model/names.ts';
import { formatAddress } from '../../../net/address.ts';
import { addressAt, formatCidr } from '../../../net/cidr.ts';
import type { PluginPorts } from '../ports.ts';
import type { FoundNetconf } from './find-netconf.ts';
import { type KernelStep, kernelSteps } from './kernel-steps.ts';
import { recordingKernel } from './recording-kernel.ts';
import { recordingStore } from './recording-store.ts';
import { type StoreStep, storeSteps } from './store-steps.ts';

export interface PlanPorts extends RetryPorts {
  readonly store: CallStore;
  /** The blocks that the agent of the node offers; undefined when no agent would serve the call. */
  readonly offered: readonly IpBlock[] | undefined;
  /** Undefined when the node of the pod is another machine, whose kernel is not read. */
  readonly kernel: Kernel | undefined;
  readonly orch: OrchReader;
  /** What the node itself needs. */
  readonly ownRanges: readonly UsedRange[];
  readonly plugin: Pick<PluginPorts, 'readInstalledList' | 'readOfferedMtu' | 'bandwidthBurstMs' | 'linkKey'>;
}

export interface AddRequest {
  readonly netconf: FoundNetconf;
  readonly node: NodeName;
  readonly invocation: Invocation;
}

/** The changes that an ADD would make, in order. */
export interface AddPlan {
  readonly node: string;
  readonly pod: string | undefined;
  readonly containerId: string;
  readonly ifName: string;
  readonly netns: string;
  readonly netconf: string;
  /** Whether the agent of the node or netplug-standalone would serve the call. */
  readonly servedBy: 'agent' | 'standalone';
  /** URLs of readiness gates that must answer first. */
  readonly gates: readonly string[];
  readonly store: readonly StoreStep[];
  readonly kernel: readonly KernelStep[];
  /** Plugins that ADD executes, with their configuration. */
  readonly plugins: readonly PluginRun[];
  /** Floating IPs that the agent of the node translates. */
  readonly floatingIps: readonly { readonly externalIP: string; readonly internalIP: string }[];
  /** Warnings recorded as events of the pod. */
  readonly events: readonly string[];
  /** Addresses that the agent of the node has pre-allocated, when it would not serve the call. */
  readonly preallocated: readonly { readonly block: string; readonly addresses: readonly string[] }[];
  readonly warnings: readonly string[];
  /** The result that the runtime receives. */
  readonly result: Readonly<Record<string, unknown>>;
}

interface PluginRun {
  readonly file: string;
  readonly command: string;
  readonly conf: unknown;
}

/**
 * Runs ADD on a datastore and a kernel that record changes instead of applying them.
 * @throws the errors of ADD, and cli/usage when another plugin assigns addresses
 */
export async function planAdd(ports: PlanPorts, request: AddRequest, signal: AbortSignal): Promise<AddPlan> {
  const { netconf, node, invocation } = request;
  const { config, raw } = netconf;
  refuseOthers(request);
  const call = decodeCall({ invocation, config, raw }, node, { work: signal, cleanup: signal });
  const store = recordingStore(ports.store, { node, offered: ports.offered });
  const kernel = recordingKernel(ports.kernel);
  const attachments = memoryRecords();
  const gates: string[] = [];
  const events: string[] = [];
  const warnings: string[] = [...config.warnings];
  const plugins: PluginRun[] = [];
  const execDelegate: ExecDelegate = async (file, { command, stdin }) => {
    plugins.push({ file, command, conf: tryParseJson(stdin) });
    return Promise.resolve({ status: 0, stdout: '', stderr: '' });
  };
  const around: CniPorts = {
    ...ports.plugin,
    ownRanges: () => ports.ownRanges,
    clock: ports.clock,
    random: ports.random,
    store: store.store,
    kernel: kernel.kernel,
    attachments,
    keptNotes: memoryKeptNotes(),
    log: warningsInto(warnings),
    stopwatch: new Stopwatch(ports.clock, 'plan'),
    execDelegate,
    execDelegateFor: () => execDelegate,
    probeGate: async (url) => {
      gates.push(url);
      return Promise.resolve(200);
    },
    isolation: {
      isOn: false,
      isolate: async () => Promise.resolve({ state: 'in force' }),
      release: async () => Promise.resolve(true),
      collect: async () => Promise.resolve(true),
      withdraw: async () => Promise.resolve(),
      findObstacle: async () => Promise.resolve(undefined),
    },
    orch: {
      readPod: async (pod, limit) => ports.orch.readPod(pod, limit),
      readPodCidrs: async (name, limit) => ports.orch.readPodCidrs(name, limit),
      recordWarning: async (_, message) => {
        events.push(message);
        return Promise.resolve();
      },
    },
  };
  const result = await serveNetwork(around, call, invocation);
  const written = storeSteps(store.changes);
  return {
    node,
    pod: call.pod === undefined ? undefined : `${call.pod.namespace}/${call.pod.name}`,
    containerId: invocation.containerId,
    ifName: invocation.ifName,
    netns: invocation.netns,
    netconf: netconf.file,
    servedBy: ports.offered === undefined ? 'standalone' : 'agent',
    gates,
    store: written,
    kernel: kernelSteps(kernel.steps),
    plugins,
    floatingIps: await floatingIn(attachments),
    events,
    preallocated: ports.offered === undefined ? await preallocatedOf(ports.store, node, signal) : [],
    warnings,
    result: result === undefined ? {} : renderResult(result, config.cniVersion),
  };
}

async function floatingIn(attachments: AttachmentRecords): Promise<AddPlan['floatingIps']> {
  const { records } = await attachments.list();
  return records.flatMap(({ floating }) =>
    floating.map(({ external, internal }) => ({
      externalIP: formatAddress(external),
      internalIP: formatAddress(internal),
    })),
  );
}

function refuseOthers({ netconf: { config, file } }: AddRequest): void {
  const { ipam } = config;
  if (ipam.type === 'netplug-ipam') return;
  const plugin = ipam.type === 'other' ? ipam.plugin : ipam.type;
  throw new NetplugError(
    'cli/usage',
    `Cannot plan an ADD for "${file}": addresses come from plugin "${plugin}", which decides only when it runs`,
    { hint: 'Plan with a configuration whose ipam.type is "netplug-ipam"' },
  );
}

async function preallocatedOf(
  store: AllocationStore,
  node: NodeName,
  signal: AbortSignal,
): Promise<AddPlan['preallocated']> {
  const { owned } = await store.readNodeView(node, undefined, signal);
  return owned
    .filter(({ value }) => value.preallocated.size > 0)
    .map(({ value: { cidr, preallocated } }) => ({
      block: formatCidr(cidr),
      addresses: [...preallocated.keys()].map((ordinal) => formatAddress(addressAt(cidr, ordinal))),
    }));
}

function warningsInto(warnings: string[]): Log {
  const ignore = (): void => undefined;
  const keep: Log['warning'] = (event, facts = {}) => {
    const said = Object.values(facts).filter((value) => value !== undefined);
    warnings.push([event, ...said.map(String)].join(': '));
  };
  return { error: keep, warning: keep, info: ignore, debug: ignore };
}
