import { NetplugError, reasonOf } from '../base/errors.ts';
import type { PodNetwork } from '../dataplane/kernel.ts';
import type { LeftElements } from '../dataplane/policy-filter.ts';
import type { Attachment } from '../model/names.ts';
import type { WorkloadEndpoint } from '../model/workload-endpoint.ts';
import { type Address, sameAddress } from '../net/address.ts';
import { type CniCall, callFacts, type CniPorts } from './call.ts';
import { planEndpoint } from './pod-network.ts';

/** State of the policies of a pod when its ADD returns. */
export type Isolation =
  | { readonly state: 'in force' }
  /** The kernel drops all packets of the pod until its policies are in force. */
  | { readonly state: 'closed'; readonly reason: string }
  /** No policy applies to the pod. */
  | { readonly state: 'not enforced'; readonly reason: string };

/** Identifies the endpoint of one sandbox. A newer sandbox of the same pod has the same name. */
export interface SandboxEndpoint {
  readonly metadata: Pick<WorkloadEndpoint['metadata'], 'name' | 'namespace'>;
  readonly spec: Pick<WorkloadEndpoint['spec'], 'node' | 'containerID'>;
}

/** What the kernel may still have of an earlier pod. */
export interface LeftBehind extends LeftElements {
  /** Addresses whose flows must end. */
  readonly flowsOf: readonly Address[];
}

/** Asks the agent to enforce a pod's policies. */
export interface PodIsolation {
  /** Whether the node enforces policies now. When on, pods without known policies are dropped. */
  readonly isOn: boolean;
  /**
   * Has the policies of the endpoint enforced and waits for a limited time until they are in force. Switches enforcement on
   * unless the agent is configured otherwise. Never rejects.
   */
  isolate(endpoint: WorkloadEndpoint, signal: AbortSignal): Promise<Isolation>;
  /**
   * Removes the endpoint, so that a later holder of its addresses inherits nothing. Waits for a limited time. Never rejects.
   * Reports whether it is removed; otherwise the caller must `withdraw` what it left.
   */
  release(endpoint: SandboxEndpoint, signal: AbortSignal): Promise<boolean>;
  /** Removes the endpoints whose attachment was removed, as `release` does. Reports whether all are. */
  collect(isRemoved: (attachment: Attachment) => boolean, signal: AbortSignal): Promise<boolean>;
  /**
   * Takes what a pod left out of the policies that the kernel has, while no process does that which knows the pods of the node.
   * The next pod with the interface is closed until one does. Idempotent. @throws kernel/failed
   */
  withdraw(left: LeftBehind, signal: AbortSignal): Promise<void>;
  /** Returns why no pod has its policies enforced although it asks for them; undefined when pods have. @throws store/* */
  findObstacle(signal: AbortSignal): Promise<string | undefined>;
}

/** The enforcement of one ADD. It starts as soon as the addresses are decided, while they are still being recorded. */
export class StartedEnforcement {
  readonly #ports: Pick<CniPorts, 'isolation' | 'stopwatch'>;
  readonly #call: CniCall;
  readonly #networkOf: (addresses: readonly Address[]) => PodNetwork;
  #started: { readonly addresses: readonly Address[]; readonly outcome: Promise<Isolation> } | undefined;

  constructor(
    ports: Pick<CniPorts, 'isolation' | 'stopwatch'>,
    call: CniCall,
    networkOf: (addresses: readonly Address[]) => PodNetwork,
  ) {
    this.#ports = ports;
    this.#call = call;
    this.#networkOf = networkOf;
  }

  /** Starts it unless it was last started with these addresses. Resolves as `startEnforcement` does. */
  async start(addresses: readonly Address[]): Promise<Isolation> {
    const isStarted =
      this.#started?.addresses.length === addresses.length &&
      this.#started.addresses.every((address, index) => sameAddress(address, addresses[index] ?? address));
    if (this.#started === undefined || !isStarted)
      this.#started = { addresses, outcome: startEnforcement(this.#ports, this.#call, this.#networkOf(addresses)) };
    return this.#started.outcome;
  }

  /** Removes the endpoint if it was started. */
  async stop(signal: AbortSignal): Promise<void> {
    if (this.#started !== undefined) await stopEnforcement(this.#ports, this.#call, signal);
  }
}

/** Isolates the pod. The promise never rejects; it resolves when the policies are in force, or after a limited time. */
async function startEnforcement(
  { isolation, stopwatch }: Pick<CniPorts, 'isolation' | 'stopwatch'>,
  call: CniCall,
  network: PodNetwork,
): Promise<Isolation> {
  if (!isolation.isOn && !wantsPolicy(call))
    return { state: 'not enforced', reason: 'the configuration has no policy' };
  const endpoint = planEndpoint(call, network);
  return stopwatch.time('policy', async () => {
    const state = await isolation.isolate(endpoint, call.signal);
    if (state.state !== 'closed') return state;
    // The kernel may have policies of an earlier pod with this interface. What it has of the addresses belongs to a process that
    // may only be late; without its interface, the pod sends and receives nothing.
    const left = { interfaces: [network.hostLinkName], addresses: [], flowsOf: network.addresses };
    try {
      await isolation.withdraw(left, call.signal);
      return state;
    } catch (cause) {
      return { state: 'not enforced', reason: `${state.reason}, and the pod cannot be closed: ${reasonOf(cause)}` };
    }
  });
}

/** Removes the endpoint of the pod from policy. Never rejects. Reports whether nothing of it is left. */
export async function stopEnforcement(
  { isolation, stopwatch }: Pick<CniPorts, 'isolation' | 'stopwatch'>,
  call: CniCall,
  signal: AbortSignal,
): Promise<boolean> {
  const { endpointId, attachment } = call;
  if (!isolation.isOn || endpointId === undefined) return true;
  const { name, namespace, node } = endpointId;
  const endpoint = { metadata: { name, namespace }, spec: { node, containerID: attachment.containerId } };
  return stopwatch.time('policy', async () => isolation.release(endpoint, signal));
}

/** Takes what removed pods left out of the policies of the kernel. Failures are logged: the next pod that has it tries again. */
export async function withdrawLeft(
  { isolation, log }: Pick<CniPorts, 'isolation' | 'log'>,
  left: LeftElements,
  signal: AbortSignal,
): Promise<void> {
  await isolation.withdraw({ ...left, flowsOf: left.addresses }, signal).catch((cause: unknown) => {
    log.warning('policies of a removed pod not withdrawn', { interfaces: left.interfaces, reason: reasonOf(cause) });
  });
}

/** Logs that the policies of a pod are not in force. The ADD succeeds: the kernel drops the pod's packets until they are. */
export function logEnforcement({ log }: Pick<CniPorts, 'log'>, call: CniCall, isolation: Isolation): void {
  if (isolation.state === 'in force') return;
  const facts = { ...callFacts(call), reason: isolation.reason };
  if (isolation.state === 'closed') log.warning('policy enforcement delayed', facts);
  else if (wantsPolicy(call)) log.warning('policies not enforced', facts);
}

/** @throws status/not-ready when the configuration asks for policies that the node cannot enforce, and store/* */
export async function assertEnforceable({ isolation }: Pick<CniPorts, 'isolation'>, call: CniCall): Promise<void> {
  if (!wantsPolicy(call)) return;
  const obstacle = await isolation.findObstacle(call.signal);
  if (obstacle === undefined) return;
  throw new NetplugError('status/not-ready', `policy.type is "orch", and ${obstacle}`, {
    hint: 'Run netplug-orch-controllers: "netplugctl doctor" examines them',
  });
}

function wantsPolicy({ config }: CniCall): boolean {
  return config.policyType === 'orch';
}

/** Returns a port for programs that enforce no policies, with the reason. */
export function noIsolation(reason: string): PodIsolation {
  return {
    isOn: false,
    isolate: async () => Promise.resolve({ state: 'not enforced', reason }),
    release: async () => Promise.resolve(true),
    collect: async () => Promise.resolve(true),
    withdraw: async () => Promise.resolve(),
    findObstacle: async () => Promise.resolve(undefined),
  };
}

/** Returns the port with a count of how the policies of each pod stood when its ADD returned. */
export function countedIsolation(inner: PodIsolation, onIsolated: (state: Isolation['state']) => void): PodIsolation {
  return {
    get isOn() {
      return inner.isOn;
    },
    isolate: async (endpoint, signal) => {
      const isolation = await inner.isolate(endpoint, signal);
      onIsolated(isolation.state);
      return isolation;
    },
    release: async (endpoint, signal) => inner.release(endpoint, signal),
    collect: async (isRemoved, signal) => inner.collect(isRemoved, signal),
    withdraw: async (left, signal) => inner.withdraw(left, signal),
    findObstacle: async (...args) => inner.findObstacle(...args),
  };
}
