import { NetplugError } from '../base/errors.ts';
import type { PodNetwork } from '../dataplane/kernel.ts';
import type { Attachment } from '../model/names.ts';
import type { WorkloadEndpoint } from '../model/workload-endpoint.ts';
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

/** Asks the agent to enforce a pod's policies. */
export interface PodIsolation {
  /** Whether the node enforces policies now. When on, pods without known policies are dropped. */
  readonly isOn: boolean;
  /**
   * Has the policies of the endpoint enforced and waits for a limited time until they are in force. Switches enforcement on
   * unless the agent is configured otherwise. Never rejects.
   */
  isolate(endpoint: WorkloadEndpoint, signal: AbortSignal): Promise<Isolation>;
  /** Removes the endpoint, so that a later holder of its addresses inherits nothing. Waits for a limited time. Never rejects. */
  release(endpoint: SandboxEndpoint, signal: AbortSignal): Promise<void>;
  /** Removes the endpoints whose attachment was removed, as `release` does. */
  collect(isRemoved: (attachment: Attachment) => boolean, signal: AbortSignal): Promise<void>;
  /** Returns why no pod has its policies enforced although it asks for them; undefined when pods have. @throws store/* */
  findObstacle(signal: AbortSignal): Promise<string | undefined>;
}

/** Isolates the pod. The promise never rejects; it resolves when the policies are in force, or after a limited time. */
export async function startEnforcement(
  { isolation, stopwatch }: Pick<CniPorts, 'isolation' | 'stopwatch'>,
  call: CniCall,
  network: PodNetwork,
): Promise<Isolation> {
  if (!isolation.isOn && !wantsPolicy(call))
    return { state: 'not enforced', reason: 'the configuration has no policy' };
  const endpoint = planEndpoint(call, network);
  return stopwatch.time('policy', async () => isolation.isolate(endpoint, call.signal));
}

/** Removes the endpoint of the pod from policy. Never rejects. */
export async function stopEnforcement(
  { isolation, stopwatch }: Pick<CniPorts, 'isolation' | 'stopwatch'>,
  call: CniCall,
  signal: AbortSignal,
): Promise<void> {
  const { endpointId, attachment } = call;
  if (!isolation.isOn || endpointId === undefined) return;
  const { name, namespace, node } = endpointId;
  const endpoint = { metadata: { name, namespace }, spec: { node, containerID: attachment.containerId } };
  await stopwatch.time('policy', async () => isolation.release(endpoint, signal));
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
    release: async () => Promise.resolve(),
    collect: async () => Promise.resolve(),
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
    findObstacle: async (...args) => inner.findObstacle(...args),
  };
}
