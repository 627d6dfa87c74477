import type { RetryPorts } from '../../base/back-off.ts';
import type { Inspector } from '../../datastore/inspector.ts';
import type { Store } from '../../datastore/store.ts';
import type { OrchReader } from '../../cni/orch-reader.ts';
import type { Datastore, OrchSettings } from '../../config/connection.ts';
import type { Env } from '../../config/environment.ts';
import type { PlanRecords } from '../../plans/plan-records.ts';
import type { HostPorts } from '../../install/host/host-ports.ts';
import type { EnforcedPolicy } from '../../kube/admission-policies.ts';
import type { Allowances } from './admit.ts';
import type { KubeconfigFlags } from '../../config/choose-connection.ts';
import type { Screen } from './screen.ts';

/** The world around one call of the tool; `bin/` builds the real one. */
export interface CtlPorts extends HostPorts, RetryPorts {
  readonly openStore: (datastore: Datastore) => Store;
  /** Looks at the datastore itself. */
  readonly openInspector: (datastore: Datastore) => Inspector;
  /** The admission policies of the orchestrator that refuse something. @throws store/* */
  readonly listEnforcedPolicies: (settings: OrchSettings, signal: AbortSignal) => Promise<readonly EnforcedPolicy[]>;
  /** How far the plans of earlier calls were carried out. */
  readonly planRecords: PlanRecords;
  readonly hostname: string;
  /** The node name the agent registered this machine under, if it did. */
  readonly readRegisteredName: () => string | undefined;
  readonly machine: Machine;
  readonly host: CtlHost;
  readonly plugin: PluginPorts;
  /** Aborted when somebody asks the tool to stop. */
  readonly interrupted: AbortSignal;
}

/** What ADD asks of the world besides datastore and kernel. */
export interface PluginPorts {
  readonly openOrch: (settings: OrchSettings) => OrchReader & AsyncDisposable;
  /** Plugin types of the installed network list with that name; undefined when there is none. */
  readonly readPluginList: (network: string) => readonly string[] | undefined;
  /** The MTU, in bytes, that the node's agent offers; undefined leaves it to the kernel. */
  readonly readOfferedMtu: () => number | undefined;
  /** Where the runtime finds its network configurations. */
  readonly confDir: string;
}

/** What the tool finds on the machine it runs on. */
export interface Machine {
  /** The file that is each of our programs; undefined when the tool runs from sources. */
  readonly executable: string | undefined;
  /** What netplug remembers about this node. */
  readonly stateDir: string;
  readonly runDir: string;
  /** File that the agent of this node has locked. */
  readonly agentLock: string;
  /** Where the node's agent listens. */
  readonly socketPath: string;
  readonly logDir: string;
  /** Where a pod finds what the orchestrator gives it. */
  readonly serviceAccountDir: string;
}

/** The host as the tool sees it. */
export interface CtlHost {
  /** Whom the tool runs as. */
  readonly uid: number;
  /** Where the kernel tells about itself. */
  readonly procDir: string;
}

export interface Io {
  /** Standard input to its end. */
  readonly stdin: (signal: AbortSignal) => Promise<string>;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  /** Whether standard input is a terminal, where somebody has to type. */
  readonly isTty: boolean;
  /** Whether standard error is one, where a line can be written over. */
  readonly isErrTty: boolean;
  readonly screen: Screen;
}

/** What every command gets. */
export interface Context {
  readonly ports: CtlPorts;
  readonly env: Env;
  readonly io: Io;
  /** File of `--config`. */
  readonly config: string | undefined;
  readonly kubeconfig: KubeconfigFlags;
  readonly allow: Allowances;
  readonly signal: AbortSignal;
  /** For what goes on until somebody stops it, or the time is over that somebody has given it. */
  readonly stopped: AbortSignal;
}

/** An exit status; 1 means that what was looked at is not in order. */
export type Status = number;
