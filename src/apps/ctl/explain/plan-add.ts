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
import { renderResult } from '../../../cni/result.ts';
import { serveNetwork } from '../../../cni/serve.ts';
import type { OrchReader } from '../../../cni/orch-reader.ts';
import type { Kernel } from '../../../dataplane/kernel.ts';
import { tryParseJson } from '../../../base/try-parse-json.ts';
import type { IpBlock } from '../../../model/ip-block.ts';
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
  /** The node's own blocks as its agent offers them; undefined when no agent would serve the call. */
  readonly offered: readonly IpBlock[] | undefined;
  /** Undefined when the pod's node is another machine: nothing is looked at there. */
  readonly kernel: Kernel | undefined;
  readonly orch: OrchReader;
  readonly plugin: Pick<PluginPorts, 'readPluginList' | 'readOfferedMtu'>;
}

export interface AddRequest {
  readonly netconf: FoundNetconf;
  readonly node: NodeName;
  readonly invocation: Invocation;
}

/** What an ADD would do, in the order of its parts. */
export interface AddPlan {
  readonly node: string;
  readonly pod: string | undefined;
  readonly containerId: string;
  readonly ifName: string;
  readonly netns: string;
  readonly netconf: string;
  /** The agent of the node, or the program that serves calls alone. */
  readonly servedBy: 'agent' | 'standalone';
  /** URLs that have to answer first. */
  readonly gates: readonly string[];
  readonly store: readonly StoreStep[];
  readonly kernel: readonly KernelStep[];
  /** Plugins that are run, with what they are told. */
  readonly plugins: readonly PluginRun[];
  /** What the agent of the node translates. */
  readonly floatingIps: readonly { readonly externalIP: string; readonly internalIP: string }[];
  /** Warnings recorded as events of the pod. */
  readonly events: readonly string[];
  /** Addresses that an agent of the node has set aside, when the call would not be served by it. */
  readonly stock: readonly { readonly block: string; readonly addresses: readonly string[] }[];
  readonly warnings: readonly string[];
  /** What the runtime is answered. */
  readonly result: Readonly<Record<string, unknown>>;
}

interface PluginRun {
  readonly file: string;
  readonly command: string;
  readonly conf: unknown;
}

/**
 * Runs ADD itself on a datastore and a kernel that remember what they are told instead of doing it.
 * @throws what ADD throws, and cli/usage when addresses come from another plugin
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
    clock: ports.clock,
    random: ports.random,
    store: store.store,
    kernel: kernel.kernel,
    attachments,
    log: warningsInto(warnings),
    stopwatch: new Stopwatch(ports.clock, 'plan'),
    execDelegate,
    execDelegateFor: () => execDelegate,
    probeGate: async (url) => {
      gates.push(url);
      return Promise.resolve(200);
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
    stock: ports.offered === undefined ? await stockOf(ports.store, node, signal) : [],
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
    `Cannot plan an ADD for "${file}": addresses come from plugin "${plugin}", which decides only when it is run`,
    { hint: 'Plan with a configuration whose ipam.type is "netplug-ipam"' },
  );
}

async function stockOf(store: AllocationStore, node: NodeName, signal: AbortSignal): Promise<AddPlan['stock']> {
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
