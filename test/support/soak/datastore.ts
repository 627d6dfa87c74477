// Where the records of a soak are, and what may befall it.
import type { IpBlock } from '../../../src/model/ip-block.ts';
import type { Json, Service, TestNode } from '../node.ts';

export type SoakPools = Readonly<Record<string, readonly [cidr: string, spec: object]>>;

/** A program without which nothing is written. */
export interface Server extends Pick<Service, 'pause' | 'resume'> {
  readonly name: string;
  kill(): Promise<void>;
  /** Starts it again, on the same data. */
  start(): Promise<void>;
}

/** How the programs of one node get at the records. */
export interface SoakAccess {
  /** Fields of the network configuration. */
  readonly conf: Readonly<Record<string, Json>>;
  /** Environment of calls, of the agent and of netplugctl. */
  readonly env: Readonly<Record<'call' | 'agent' | 'tool', Readonly<Record<string, string>>>>;
}

export interface SoakDatastore extends AsyncDisposable {
  /** The first is the one that nodes talk to. */
  readonly servers: readonly Server[];
  /** In the order of the nodes. */
  readonly access: readonly SoakAccess[];
  /** Waits until every server serves. */
  settled(): Promise<void>;
  /**
   * Returns CNI_ARGS for a container of the pod; undefined when the orchestrator cannot record the pod now. A
   * `new` pod takes the place of one of the same name.
   */
  startPod(pod: string, node: string, which: 'new' | 'same'): Promise<string | undefined>;
  /** Has the orchestrator forget the pod, as `kubectl delete --force` does before the runtime knows. */
  forgetPod(pod: string): Promise<void>;
  blocks(): Promise<readonly IpBlock[]>;
  /** What is recorded of containers, as text that names each. */
  endpoints(): Promise<readonly string[]>;
}

/** Starts the datastore on the first node; all of them are plugged into one segment, the first as 172.31.0.2. */
export type StartDatastore = (nodes: readonly TestNode[], pools: SoakPools) => Promise<SoakDatastore>;
