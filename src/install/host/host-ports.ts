import type { Clock } from '../../base/clock.ts';
import type { Bird } from '../../bgp/bird.ts';
import type { ChainedState } from '../../dataplane/chained-state.ts';
import type { HostNetwork } from '../../dataplane/host-network.ts';
import type { HostSides, Kernel } from '../../dataplane/kernel.ts';
import type { RateLimits } from '../../dataplane/rate-limits.ts';
import type { TableFilter } from '../../dataplane/policy-filter.ts';

/** Dependencies of cleaning up a host. */
export interface HostPorts {
  readonly clock: Clock;
  readonly openKernel: () => Kernel & HostSides & RateLimits;
  readonly openHostNetwork: () => HostNetwork;
  readonly openChained: () => ChainedState;
  readonly openFilter: () => Pick<TableFilter, 'has' | 'remove'> & Disposable;
  /** The BIRD that the agent of this host has started. */
  readonly bird: Pick<Bird, 'status' | 'stop' | 'findProcess'>;
  /** Locks an open file for this process until it is closed; false while another process has the lock. */
  readonly tryLockFile: (fd: number) => boolean;
  /** Does not fail for a process that has exited. */
  readonly sendSignal: (pid: number, signal: 'SIGTERM' | 'SIGKILL') => void;
  /** Asks the agent that listens at the socket; the answer is JSON. */
  readonly askAgent: (socket: string, question: AgentQuestion, signal: AbortSignal) => Promise<string>;
  readonly machine: {
    /** File that the agent of this node has locked. */
    readonly agentLock: string;
    /** Socket of the agent of the node. */
    readonly socketPath: string;
  };
  readonly host: {
    /** Mount point of the proc file system. */
    readonly procDir: string;
  };
}

export interface AgentQuestion {
  readonly kind: 'show-calls' | 'show-network' | 'show-blocks' | 'show-flows' | 'shut-down';
  /** JSON, the id of a datastore, or empty, depending on the kind. */
  readonly text: string;
}

export interface HostContext {
  readonly ports: HostPorts;
  readonly signal: AbortSignal;
}
