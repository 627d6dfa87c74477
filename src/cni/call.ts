import type { UsedRange } from '../model/used-range.ts';
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
import type { PodRequests } from '../config/annotations.ts';
import type { CniArgs } from '../config/cni-args.ts';
import type { Netconf } from '../config/netconf.ts';
import type { AttachmentRecords } from './attachment-records.ts';
import type { CallIdentity } from './call-record.ts';
import type { ExecDelegate } from './delegate.ts';
import type { ProbeGate } from './gates.ts';
import type { InstalledList } from './installed-list.ts';
import type { KeptNotes } from './kept-notes.ts';
import type { LinkKey } from './link-name.ts';
import type { OrchReader } from './orch-reader.ts';
import type { PodIsolation } from './pod-isolation.ts';

/** One CNI call from the runtime, decoded. */
export interface CniCall {
  readonly config: Netconf;
  /** The undecoded configuration, for delegated plugins. */
  readonly raw: Readonly<Record<string, unknown>>;
  readonly node: NodeName;
  readonly attachment: Attachment;
  /** Directories of CNI_PATH, which are searched for delegated plugins. */
  readonly path: readonly string[];
  /** Empty when the runtime gives none (DEL). */
  readonly netns: string;
  readonly args: CniArgs;
  readonly pod: PodIdentity | undefined;
  /** The pod as the orchestrator's API returns it; undefined without `policy.type` "orch". */
  readonly orchPod: OrchPod | undefined;
  /** Identifies the endpoint resource of this attachment; undefined for GC and STATUS, which name no attachment. */
  readonly endpointId: EndpointId | undefined;
  /** Aborts the work when the call is interrupted or reaches its deadline. */
  readonly signal: AbortSignal;
  /** Aborts the cleanup. It has a later deadline than `signal`, which leaves time to undo what the work began. */
  readonly cleanupSignal: AbortSignal;
}

export interface OrchPod {
  readonly facts: PodFacts;
  readonly requests: PodRequests;
}

export interface CniPorts extends RetryPorts {
  readonly store: CallStore;
  readonly kernel: Kernel;
  readonly attachments: AttachmentRecords;
  readonly keptNotes: KeptNotes;
  readonly linkKey: LinkKey;
  readonly log: Log;
  readonly stopwatch: Stopwatch;
  readonly execDelegate: ExecDelegate;
  /** Returns an `execDelegate` for another attachment. */
  readonly execDelegateFor: (attachment: Pick<Attachment, 'containerId' | 'ifName'>) => ExecDelegate;
  readonly probeGate: ProbeGate;
  readonly orch: OrchReader;
  readonly isolation: PodIsolation;
  /** Returns what the installed configuration list of the network says; undefined when there is none. */
  readonly readInstalledList: (network: string) => InstalledList | undefined;
  /** Returns the pod MTU, in bytes, that the agent has published; undefined leaves it to the kernel. */
  readonly readOfferedMtu: () => number | undefined;
  /** Milliseconds of its rate that a pod with a limit sends or receives at once. */
  readonly bandwidthBurstMs: number;
  /** Returns the networks of the node's own interfaces, over which no address is assigned. */
  readonly ownRanges: () => readonly UsedRange[];
}

/** Returns the facts that identify the call in logs and records. */
export function callFacts({ attachment, pod, node }: CniCall): CallIdentity {
  const { network, containerId, ifName } = attachment;
  return { network, containerId, ifName, pod: pod === undefined ? undefined : `${pod.namespace}/${pod.name}`, node };
}

/** @throws netconf/needs-orchestrator when an option needs the orchestrator's API and `orch` configures no access to it */
export function assertOrchestratorAccess({ needsOrchestrator }: Netconf): void {
  if (needsOrchestrator.length === 0) return;
  const needs = needsOrchestrator.map(({ path, reason }) => `${path} (${reason})`).join(', ');
  throw new NetplugError(
    'netconf/needs-orchestrator',
    `Cannot use this configuration: orch gives no access to the API of the orchestrator, needed for ${needs}`,
    {
      hint: 'Set orch.orchconfig to a file that gives access (recommended), or orch.orch_api_root to the URL of the API',
      facts: { paths: needsOrchestrator.map(({ path }) => path) },
    },
  );
}
