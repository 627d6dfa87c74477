import { NetplugError, reasonOf, toNetplugError } from '../../base/errors.ts';
import { failureFacts } from '../../cni/error-output.ts';
import type { Log } from '../../base/log.ts';
import { BackOff, type RetryPorts } from '../../base/back-off.ts';
import { aborted } from '../../base/until-aborted.ts';
import { supervise, type SupervisedPart } from '../../runtime/supervise.ts';
import { VERSION } from '../../base/version.ts';
import { keepClusterInformation } from '../../datastore/keep-cluster-information.ts';
import type { Store } from '../../datastore/store.ts';
import type { HealthServer } from '../../runtime/health-server.ts';
import type { NodeName } from '../../model/names.ts';
import { readFlowsQuestion } from '../../model/shown-flows.ts';
import type { Datastore } from '../../config/connection.ts';
import { askAgent } from './ask-agent.ts';
import { CallServer } from './call-server.ts';
import type { ServeCall } from './conversation.ts';
import { type Registry, registerName, registerNode } from './register-node.ts';
import { encodeOfferedBlocks } from '../../ipam/node/offered-block.ts';
import type { NetworkProcess } from './network-process.ts';
import type { NodeProblems } from './node-problems.ts';
import type { ResidentNodes } from './resident-nodes.ts';
import type { CallAnswer } from './wire.ts';

/** Time that the previous agent may take to hand over. Its calls in flight may take a minute. */
const HANDOVER_MS = 90_000;
const LOCK_PERIOD_MS = 10;
/** Time that calls in flight may take at shutdown. */
const FINISH_CALLS_MS = 20_000;
const DRAIN_MS = 5000;
/** Interval at which the registration of the node is checked. */
const REGISTERED_MS = 60_000;
const REGISTRATION_BACK_OFF = { firstMs: 1000, maxMs: 10_000, maxRefusedMs: 60_000 };
/** Time that the datastore may take to answer before a takeover. */
const PROOF_MS = 10_000;
/** Time that the agent may take to read its node before it serves calls. */
const READY_MS = 10_000;
const HEALTH_RETRY_MS = 500;
const DONE: CallAnswer = { status: 0, stdout: '', stderr: '' };

export interface AgentPorts extends RetryPorts {
  readonly log: Log;
  readonly nodes: ResidentNodes;
  readonly openStore: (datastore: Datastore) => Store;
  /** Serves one CNI call. */
  readonly serveCall: ServeCall;
  /** Returns the last calls as JSON. @throws cni/input-undecodable */
  readonly showCalls: (question: string) => string;
  readonly onCount: (inFlight: number) => void;
  /** Called with the milliseconds that it took to become the node's only agent. */
  readonly onLockWait: (ms: number) => void;
  /** The network process of the node; undefined with NETPLUG_NETWORKING=off. */
  readonly network: Pick<NetworkProcess, 'run' | 'show' | 'flows'> | undefined;
  readonly problems: Pick<NodeProblems, 'current' | 'publish'>;
  /** Reports the conditions of the orchestrator's Node. Runs until the signal aborts. */
  readonly conditions: { readonly run: (signal: AbortSignal) => Promise<void> } | undefined;
  /** Whether the network process connects the node with other nodes, and registers the node once it does. */
  readonly isConnecting: boolean;
  /** Drops the packets of all pods when policies are enforced and the kernel has none yet. */
  readonly closePods: (signal: AbortSignal) => Promise<void>;
  /** @throws agent/health-failed */
  readonly startHealth: () => Promise<HealthServer | undefined>;
  /** Serves probes of the node's kubelet to root alone. @throws agent/health-failed */
  readonly startProbes: () => Promise<AsyncDisposable>;
  /** Conflist and credentials of the plugin. Runs until the signal aborts. */
  readonly pluginFiles: { readonly run: (signal: AbortSignal) => Promise<void> };
  /** Releases what delegated address managers hold for attachments that have ended. Runs until the signal aborts. */
  readonly leaks: { readonly run: (signal: AbortSignal) => Promise<void> };
  /** @throws agent/health-failed */
  readonly startMetrics: () => Promise<HealthServer | undefined>;
  /** Tries to make this process the node's only agent. Reports whether it is; false while another agent runs. */
  readonly tryBecomeOnly: () => boolean;
}

export interface AgentSettings {
  readonly node: NodeName;
  readonly datastore: Datastore;
  readonly socketPath: string;
  readonly registry: Registry;
}

/**
 * Serves the node's calls until the signal aborts or another agent replaces this one, and returns which of the two
 * happened. Takes over from an agent that is already running, after this one has proven that it can reach the datastore.
 * Meanwhile new calls wait here until the other agent has finished its own.
 * @throws agent/socket-unusable, agent/not-alone, store/* when it cannot take over what works; agent/name-taken when another
 * machine has taken the name of the node
 */
export async function serveNode(
  ports: AgentPorts,
  settings: AgentSettings,
  stop: AbortSignal,
): Promise<'stopped' | 'replaced'> {
  const { clock, log, nodes, network } = ports;
  const { node, datastore, socketPath } = settings;
  const ending = new AbortController();
  let isReplaced = false;
  stop.addEventListener('abort', () => ending.abort(), { once: true });
  const server = new CallServer({
    clock,
    log,
    onCount: ports.onCount,
    serve: async (request, callerClosed) => {
      if (request.kind === 'show-calls') return showCalls(ports, request.stdin);
      if (request.kind === 'show-network')
        return askNetwork(network, 'the network', async (running) => ({
          ...(await running.show()),
          problems: await ports.problems.current(),
        }));
      if (request.kind === 'show-flows') return showFlows(network, request.stdin);
      if (request.kind === 'show-blocks') return showBlocks(nodes, request.stdin);
      if (request.kind === 'shut-down') {
        log.info('shutdown requested');
        ending.abort();
        return DONE;
      }
      if (request.kind !== 'take-over') return ports.serveCall(request, callerClosed);
      log.info('takeover requested by another agent');
      isReplaced = true;
      void server.waitForTakeover().then(() => ending.abort());
      return DONE;
    },
  });
  await server.listen(socketPath);
  try {
    const startMs = clock.monotonic();
    if (ports.tryBecomeOnly()) await server.publish();
    else await takeOver(ports, settings, { server, signal: ending.signal });
    ports.onLockWait(clock.monotonic() - startMs);
    const named = nodes.get(datastore);
    await named.opened(AbortSignal.any([ending.signal, AbortSignal.timeout(READY_MS)]));
    // The network process registers the name where it connects the node.
    const isRegistered = ports.isConnecting || (await tryRegisterName(ports, settings));
    // Before the first call is served. The network process retries.
    await ports.closePods(ending.signal).catch((cause: unknown) => {
      log.warning('pod traffic not blocked', { reason: reasonOf(cause) });
    });
    server.start();
    log.info('agent started', { node, socket: socketPath });
    const parts: SupervisedPart[] = [
      async (signal) => keepRegistered(ports, settings, signal),
      async (signal) => nodes.keepName(signal),
      async (signal) => {
        // Another agent takes the socket without a request when this one hangs.
        await server.waitUntilSuperseded(signal);
        log.warning('agent superseded', { reason: 'its socket was removed or replaced by another agent' });
        isReplaced ||= !signal.aborted;
      },
      async (signal) => serveHttp(ports, 'probes', signal),
      async (signal) => serveHttp(ports, 'health', signal),
      async (signal) => serveHttp(ports, 'metrics', signal),
      async (signal) => ports.pluginFiles.run(signal),
      async (signal) => ports.leaks.run(signal),
      async (signal) => ports.problems.publish({ node, release: VERSION }, signal),
    ];
    if (network !== undefined) parts.push(async (signal) => network.run(signal));
    if (!isRegistered) parts.push(async (signal) => retryRegistration(ports, settings, signal));
    const { conditions } = ports;
    if (conditions !== undefined) parts.push(async (signal) => conditions.run(signal));
    await supervise(parts, ending.signal);
  } finally {
    ending.abort();
    log.info('shutdown started');
    await server.stop(FINISH_CALLS_MS);
    await nodes.drain(AbortSignal.timeout(DRAIN_MS));
    await nodes[Symbol.asyncDispose]();
  }
  return isReplaced && !stop.aborted ? 'replaced' : 'stopped';
}

/**
 * Runs an HTTP server. Retries while it cannot listen, because the agent of the pod that this one replaces may still
 * hold the port. Calls are served without it.
 */
async function serveHttp(
  { clock, log, startProbes, startHealth, startMetrics }: AgentPorts,
  server: 'probes' | 'health' | 'metrics',
  signal: AbortSignal,
): Promise<void> {
  const start = { probes: startProbes, health: startHealth, metrics: startMetrics }[server];
  for (let failures = 0; !signal.aborted; failures += 1) {
    try {
      await using _server = await start();
      if (failures > 0) log.info('HTTP server started', { server });
      return await aborted(signal);
    } catch (cause) {
      if (failures === 0) log.error('HTTP server not started', { server, ...failureFacts(cause) });
    }
    await clock.sleep(HEALTH_RETRY_MS, signal).catch(() => undefined);
  }
}

function showCalls(ports: AgentPorts, question: string): CallAnswer {
  try {
    return { status: 0, stdout: ports.showCalls(question), stderr: '' };
  } catch (cause) {
    return { status: 1, stdout: '', stderr: toNetplugError(cause).message };
  }
}

/** Returns the blocks and addresses that the agent would offer the next call on that datastore. */
function showBlocks(nodes: ResidentNodes, datastore: string): CallAnswer {
  const resident = nodes.find(datastore);
  if (resident === undefined) return { status: 1, stdout: '', stderr: 'The agent serves no calls for that datastore' };
  return { status: 0, stdout: encodeOfferedBlocks(resident.offered()), stderr: '' };
}

async function showFlows(network: AgentPorts['network'], text: string): Promise<CallAnswer> {
  const question = readFlowsQuestion(text);
  if (question === undefined) return { status: 1, stdout: '', stderr: 'The question about flows cannot be decoded' };
  return askNetwork(network, 'the flows', async (running) => running.flows(question));
}

async function askNetwork<T>(
  network: AgentPorts['network'],
  what: string,
  ask: (running: NonNullable<AgentPorts['network']>) => Promise<T>,
): Promise<CallAnswer> {
  if (network === undefined) return { status: 1, stdout: '', stderr: 'The agent does not run the network of its node' };
  try {
    return { status: 0, stdout: JSON.stringify(await ask(network)), stderr: '' };
  } catch (cause) {
    return { status: 1, stdout: '', stderr: `Cannot show ${what} of the node: ${reasonOf(cause)}` };
  }
}

async function takeOver(
  { clock, log, openStore, tryBecomeOnly }: AgentPorts,
  { node, datastore, socketPath }: AgentSettings,
  { server, signal }: { readonly server: CallServer; readonly signal: AbortSignal },
): Promise<void> {
  {
    await using proof = openStore(datastore);
    await proof.readNodeView(node, undefined, AbortSignal.any([signal, AbortSignal.timeout(PROOF_MS)]));
  }
  await askAgent(socketPath, { kind: 'take-over', stdin: '' }, AbortSignal.timeout(PROOF_MS)).catch(
    (cause: unknown) => {
      log.warning('takeover request failed', { reason: reasonOf(cause) });
    },
  );
  await server.publish();
  const untilMs = clock.monotonic() + HANDOVER_MS;
  while (!tryBecomeOnly()) {
    if (clock.monotonic() > untilMs) throw notAlone(node);
    await clock.sleep(LOCK_PERIOD_MS, signal);
  }
}

/** Registers the name on this machine. Returns whether it did: a full disk does not keep the agent from serving calls. */
async function tryRegisterName({ log }: AgentPorts, { registry, node }: AgentSettings): Promise<boolean> {
  try {
    await registerName(registry, node);
    return true;
  } catch (cause) {
    log.warning('node name not registered', { reason: reasonOf(cause) });
    return false;
  }
}

async function retryRegistration(ports: AgentPorts, settings: AgentSettings, signal: AbortSignal): Promise<void> {
  do await ports.clock.sleep(REGISTRATION_BACK_OFF.maxMs, signal).catch(() => undefined);
  while (!signal.aborted && !(await tryRegisterName(ports, settings)));
  await aborted(signal);
}

/** Registers node and release, retries while the datastore is unavailable, and recreates a node that was deleted. */
async function keepRegistered(
  { nodes, ...ports }: AgentPorts,
  { node, datastore }: AgentSettings,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log } = ports;
  const named = nodes.get(datastore);
  const store = named.inner;
  const types = [datastore.type === 'orch' ? 'orch' : 'kv'];
  const backOff = new BackOff(ports, REGISTRATION_BACK_OFF);
  while (!signal.aborted) {
    try {
      const { clusterId } = await named.resolve(signal);
      await keepClusterInformation({ ...ports, store }, { version: VERSION, types, clusterId }, signal);
      // Kubernetes creates its own nodes.
      if (datastore.type === 'orch') return await aborted(signal);
      await registerNode(store, node, signal);
      backOff.succeed();
      await clock.sleep(REGISTERED_MS, signal).catch(() => undefined);
    } catch (cause) {
      if (signal.aborted) return;
      backOff.fail(cause);
      log.debug('node registration failed', { reason: reasonOf(cause) });
      await backOff.wait(signal);
    }
  }
}

function notAlone(node: NodeName): NetplugError {
  return new NetplugError('agent/not-alone', `Cannot serve node "${node}": another agent serves it and does not exit`, {
    hint: 'Stop or kill the other netplug-agent of this node; this one replays its journal',
  });
}
