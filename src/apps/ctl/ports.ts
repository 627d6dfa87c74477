import type { Socket } from 'node:dgram';
import type { RetryPorts } from '../../base/back-off.ts';
import type { Inspector } from '../../datastore/inspector.ts';
import type { Store } from '../../datastore/store.ts';
import type { Family } from '../../net/address.ts';
import type { LinkKey } from '../../cni/link-name.ts';
import type { InstalledList } from '../../cni/installed-list.ts';
import type { OrchReader } from '../../cni/orch-reader.ts';
import type { Datastore, OrchSettings } from '../../config/connection.ts';
import type { Env } from '../../config/environment.ts';
import type { PlanRecords } from '../../plans/plan-records.ts';
import type { HostPorts } from '../../install/host/host-ports.ts';
import type { EnforcedPolicy } from '../../kube/admission-policies.ts';
import type { PacketProbe } from '../../dataplane/packet-probe.ts';
import type { PacketTables } from '../../dataplane/packet-tables.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import type { UsedRange } from '../../model/used-range.ts';
import type { LeaseOptions, NamedLease } from '../../runtime/leader-lease.ts';
import type { Allowances } from './admit.ts';
import type { KubeconfigFlags } from '../../config/connection-facts.ts';
import type { Screen } from './screen.ts';

/** The dependencies of one call of the tool; `bin/` builds the real ones. */
export interface CtlPorts extends HostPorts, RetryPorts {
  readonly openStore: (datastore: Datastore) => Store;
  /** Opens an inspector of the datastore's health. */
  readonly openInspector: (datastore: Datastore) => Inspector;
  readonly openPacketProbe: () => PacketProbe;
  /** Opens a UDP socket that fragments nothing, bound to the port or to one of the kernel's choice. @throws kernel/failed */
  readonly openUnfragmented: (family: Family, port?: number) => Promise<Socket>;
  readonly openPacketTables: () => PacketTables;
  /** Opens the API of the cluster, which connects on the first request. A fence that rejects keeps writes back. */
  readonly openApi: (settings: OrchSettings, fence?: (signal: AbortSignal) => Promise<void>) => OrchApi;
  /** Opens a Lease of the cluster. */
  readonly openLease: (api: OrchApi, options: LeaseOptions) => NamedLease;
  /** Lists the admission policies of the orchestrator that refuse requests. @throws store/* */
  readonly listEnforcedPolicies: (settings: OrchSettings, signal: AbortSignal) => Promise<readonly EnforcedPolicy[]>;
  /** The progress of the plans of earlier calls. */
  readonly planRecords: PlanRecords;
  readonly hostname: string;
  /** Returns when the kernel of this machine started, in milliseconds since 1970. */
  readonly bootedAtMs: () => number;
  /** Returns the node name under which the agent registered this machine; undefined when it has not. */
  readonly readRegisteredName: () => string | undefined;
  readonly machine: Machine;
  readonly host: CtlHost;
  readonly plugin: PluginPorts;
  /** Aborted by SIGINT and SIGTERM. */
  readonly interrupted: AbortSignal;
}

/** The dependencies of ADD besides datastore and kernel. */
export interface PluginPorts {
  readonly openOrch: (settings: OrchSettings) => OrchReader & AsyncDisposable;
  /** Returns what the installed network list of that name says; undefined when there is none. */
  readonly readInstalledList: (network: string) => InstalledList | undefined;
  /** Returns the MTU in bytes that the node's agent offers; undefined leaves it to the kernel. */
  readonly readOfferedMtu: () => number | undefined;
  /** Returns the key under which the node names links; undefined for a user who may not read it. */
  readonly linkKey: LinkKey;
  /** Returns the networks of this machine, over which its plugin assigns nothing. */
  readonly ownRanges: () => readonly UsedRange[];
  /** Milliseconds of its rate that a pod with a limit sends or receives at once. */
  readonly bandwidthBurstMs: number;
  /** Folder in which the runtime finds its network configurations. */
  readonly confDir: string;
  /** Folder in which it finds plugins. */
  readonly binDir: string;
}

/** Files and folders of the machine. */
export interface Machine {
  /** The executable of all netplug programs; undefined when the tool runs from sources. */
  readonly executable: string | undefined;
  /** Persistent state of netplug on this node. */
  readonly stateDir: string;
  readonly runDir: string;
  /** Lock file of the agent. */
  readonly agentLock: string;
  /** Socket of the agent. */
  readonly socketPath: string;
  readonly logDir: string;
  /** Folder of the CNI library of the runtimes, which keeps there how it called the plugins of each interface. */
  readonly resultsDir: string;
  /** Folder of the service account in a pod. */
  readonly serviceAccountDir: string;
}

/** The user and /proc of the host. */
export interface CtlHost {
  /** The user the tool runs as. */
  readonly uid: number;
  /** Mount point of procfs. */
  readonly procDir: string;
}

export interface Io {
  /** Reads standard input to its end. */
  readonly stdin: (signal: AbortSignal) => Promise<string>;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  /** Whether standard input is a terminal. */
  readonly isTty: boolean;
  /** Whether standard error is a terminal, where a line can be overwritten. */
  readonly isErrTty: boolean;
  readonly screen: Screen;
}

/** Context that every command receives. */
export interface Context {
  readonly ports: CtlPorts;
  readonly env: Env;
  readonly io: Io;
  /** File of `--config`. */
  readonly config: string | undefined;
  readonly kubeconfig: KubeconfigFlags;
  readonly allow: Allowances;
  readonly signal: AbortSignal;
  /** Like `signal` without the default timeout: for commands that run until they are interrupted. */
  readonly stopped: AbortSignal;
}

/** An exit status; 1 means that problems were found. */
export type Status = number;
