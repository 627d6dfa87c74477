import type { CallStore } from '../datastore/store.ts';
import { NetplugError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { RetryPorts } from '../base/back-off.ts';
import type { Stopwatch } from '../base/stopwatch.ts';
import type { Kernel } from '../dataplane/kernel.ts';
import type { PodIdentity } from '../ipam/assign.ts';
import type { Attachment, NodeName } from '../model/names.ts';
import type { EndpointId } from '../model/workload-endpoint.ts';
import type { PodFacts } from '../model/pod.ts';
import type { PodWishes } from '../config/annotations.ts';
import type { CniArgs } from '../config/cni-args.ts';
import type { Netconf } from '../config/netconf.ts';
import type { AttachmentRecords } from './attachment-records.ts';
import type { CallIdentity } from './call-record.ts';
import type { ExecDelegate } from './delegate.ts';
import type { ProbeGate } from './gates.ts';
import type { OrchReader } from './orch-reader.ts';

/** One call of the runtime, decoded. */
export interface CniCall {
  readonly config: Netconf;
  /** The configuration as it came, for plugins that are delegated to. */
  readonly raw: Readonly<Record<string, unknown>>;
  readonly node: NodeName;
  readonly attachment: Attachment;
  /** Folders in which other plugins are looked for. */
  readonly path: readonly string[];
  /** Empty when the runtime gives none (DEL). */
  readonly netns: string;
  readonly args: CniArgs;
  readonly pod: PodIdentity | undefined;
  /** What the orchestrator says of the pod; undefined without `policy.type` "orch". */
  readonly orchPod: OrchPod | undefined;
  /** Where the endpoint of this attachment is recorded; undefined when the call concerns no attachment or link. */
  readonly endpointId: EndpointId | undefined;
  /** Ends the work. */
  readonly signal: AbortSignal;
  /** Ends later than `signal`, so that what the work began can still be taken back. */
  readonly cleanupSignal: AbortSignal;
}

export interface OrchPod {
  readonly facts: PodFacts;
  readonly wishes: PodWishes;
}

export interface CniPorts extends RetryPorts {
  readonly store: CallStore;
  readonly kernel: Kernel;
  readonly attachments: AttachmentRecords;
  readonly log: Log;
  readonly watch: Stopwatch;
  readonly execDelegate: ExecDelegate;
  /** The same for another attachment than the call's. */
  readonly execDelegateFor: (attachment: Pick<Attachment, 'containerId' | 'ifName'>) => ExecDelegate;
  readonly probeGate: ProbeGate;
  readonly orch: OrchReader;
  /** Plugin types of the installed network list with that name; undefined when there is none. */
  readonly readPluginList: (network: string) => readonly string[] | undefined;
  /** The MTU, in bytes, that the node's agent offers; undefined leaves it to the kernel. */
  readonly readOfferedMtu: () => number | undefined;
}

/** Flat facts that identify the call, in the log and elsewhere. */
export function callFacts({ attachment, pod, node }: CniCall): CallIdentity {
  const { network, containerId, ifName } = attachment;
  return { network, containerId, ifName, pod: pod === undefined ? undefined : `${pod.namespace}/${pod.name}`, node };
}

/** @throws netconf/needs-orchestrator when the configuration asks for what only the orchestrator's API can tell */
export function refuseOrchestrator({ needsOrchestrator }: Netconf): void {
  if (needsOrchestrator.length === 0) return;
  const wishes = needsOrchestrator.map(({ path, reason }) => `${path} (${reason})`).join(', ');
  throw new NetplugError(
    'netconf/needs-orchestrator',
    `Cannot use this configuration: orch gives no access to the API of the orchestrator, needed for ${wishes}`,
    {
      hint: 'Set orch.orchconfig to a file that gives access (recommended), or orch.orch_api_root to the URL of the API',
      facts: { paths: needsOrchestrator.map(({ path }) => path) },
    },
  );
}
