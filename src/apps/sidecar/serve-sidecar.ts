import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { type BackOffPolicy, BackOff, type RetryPorts } from '../../base/back-off.ts';
import type { repeat } from '../../base/clock.ts';
import { errnoOf, NetplugError, reasonOf } from '../../base/errors.ts';
import { type GrpcConnection, serveGrpc } from '../../base/http2/grpc-server.ts';
import type { Log } from '../../base/log.ts';
import { AgentLink } from './agent-link.ts';
import { askProxy, type ProxyAdmin, proxyVersion } from './ask-proxy.ts';
import { checkHandler } from './check-service.ts';
import { RequestJudge } from './request-judge.ts';
import { RequestLog } from './request-log.ts';

/** Connections of proxies at a time: Envoy opens one for each of its threads. Beyond, the one that asked longest ago ends. */
const MOST_CONNECTIONS = 128;
const REPORT_MS = 1000;
const PROVE_MS = 30_000;
/** How often the proxy is asked whether it has another configuration. */
const VERSION_MS = 2000;
/** A proxy that has just started gets its configuration within seconds. */
const EARLY_PROOFS_MS = [500, 500, 1000, 3000, 5000, 10_000];
const AGENT: BackOffPolicy = { firstMs: 100, maxMs: 2000 };
/** A check of an unready program fails often: once in a while is enough to know. */
const SAY_MS = 10_000;
/** After the signal to end, while the proxy drains: without a question for so long, it has. */
const QUIET_MS = 3000;

export interface SidecarSettings {
  readonly release: string;
  /** Where the agent listens, and where the proxy asks. */
  readonly sockets: { readonly agent: string; readonly check: string };
  readonly proxy: ProxyAdmin;
  /** Longest time after the signal to end. */
  readonly drainMs: number;
}

export interface SidecarPorts extends RetryPorts {
  readonly log: Log;
  readonly repeat: typeof repeat;
}

export interface RunningSidecar extends AsyncDisposable {
  /** Returns why requests are not judged, a sentence each. */
  readonly notReady: () => readonly string[];
  /** Resolves when the proxy has drained, or the time for it is over. */
  readonly drained: (signal: AbortSignal) => Promise<void>;
}

/**
 * Judges the requests that the pod receives: answers its proxy at one socket, and hears of policies from the agent at the other. Both
 * are abstract names in the network namespace of the pod. @throws sidecar/name-taken
 */
export async function serveSidecar(settings: SidecarSettings, ports: SidecarPorts): Promise<RunningSidecar> {
  const { log, clock } = ports;
  const stop = new AbortController();
  const judge = new RequestJudge();
  const requests = new RequestLog();
  const connections = new Map<Socket, GrpcConnection>();
  let lastAskedMs = clock.monotonic();
  let failures = 0;
  let saidMs = Number.NEGATIVE_INFINITY;
  let link: AgentLink | undefined;
  let shown = '';

  const handle = checkHandler({
    judge,
    onJudged: (question, judgement) => {
      lastAskedMs = clock.monotonic();
      requests.note(question, judgement);
    },
    onFailure: (reason) => {
      failures += 1;
      if (clock.monotonic() - saidMs < SAY_MS) return;
      saidMs = clock.monotonic();
      log.warning('requests are not judged', { reason, requests: failures });
      failures = 0;
    },
  });
  const server = createServer((socket) => {
    socket.once('close', () => connections.delete(socket));
    connections.set(socket, serveGrpc(socket, handle));
    if (connections.size <= MOST_CONNECTIONS) return;
    const [idlest] = [...connections].toSorted(([, a], [, b]) => a.answeredMs - b.answeredMs);
    idlest?.[0].destroy();
  });
  await listenAt(server, settings.sockets.check);

  const proveNow = async (isAsked: boolean): Promise<void> => {
    const proof = await askProxy(settings.proxy);
    const text = JSON.stringify(proof);
    if (text === shown && !isAsked) return;
    if (text !== shown)
      log.info('proxy configuration read', {
        ports: proof.ports.map(String),
        open: proof.open.map(({ port, why }) => `${String(port)}: ${why}`),
        problems: proof.problems,
      });
    shown = text;
    link?.send({ type: 'guard', proof });
  };
  // One after the other: an older answer must not replace a newer one.
  let proving: Promise<void> = Promise.resolve();
  const prove = async (isAsked: boolean): Promise<void> => {
    proving = proving.then(async () => proveNow(isAsked));
    await proving;
  };
  let version = '';
  const proveIfChanged = async (): Promise<void> => {
    const current = await proxyVersion(settings.proxy);
    if (current === version) return;
    version = current;
    await prove(false);
  };
  const proveEarly = async (): Promise<void> => {
    for (const ms of EARLY_PROOFS_MS) {
      await clock.sleep(ms, stop.signal).catch(() => undefined);
      if (stop.signal.aborted) return;
      await prove(false);
    }
  };
  const follow = async (): Promise<void> => {
    const backOff = new BackOff(ports, AGENT);
    while (!stop.signal.aborted) {
      try {
        await followAgent();
        backOff.succeed();
        log.warning('connection to the agent ended');
      } catch (cause) {
        if (backOff.fail(cause) === 1) log.warning('agent not reached', { reason: reasonOf(cause) });
      }
      link = undefined;
      await backOff.wait(stop.signal);
    }
  };
  const followAgent = async (): Promise<void> => {
    const socket = connect({ path: settings.sockets.agent });
    const abort = (): void => void socket.destroy();
    stop.signal.addEventListener('abort', abort, { once: true });
    try {
      await once(socket, 'connect');
      socket.on('error', () => socket.destroy());
      shown = '';
      link = new AgentLink(socket, {
        release: settings.release,
        believe: (identity) => judge.believe(identity),
        apply: (parts, which) => {
          judge.apply(parts, which);
          if (which === 'whole') {
            log.info('policies received', { pod: judge.pod });
            void prove(true);
          }
        },
      });
      await link.run();
    } finally {
      stop.signal.removeEventListener('abort', abort);
      socket.destroy();
    }
  };
  const followed = follow();
  const report = (): void => {
    const taken = requests.take();
    if (taken.length > 0) link?.send({ type: 'requests', requests: taken });
  };
  ports.repeat(report, REPORT_MS, stop.signal);
  ports.repeat(() => void prove(false), PROVE_MS, stop.signal);
  ports.repeat(() => void proveIfChanged(), VERSION_MS, stop.signal);
  const provedEarly = proveEarly();

  return {
    notReady: () => (judge.isReady ? [] : ['the agent of the node has not said which policies apply']),
    drained: async (signal) => {
      const endMs = clock.monotonic() + settings.drainMs;
      lastAskedMs = clock.monotonic();
      const isDraining = (): boolean =>
        connections.size > 0 && clock.monotonic() < Math.min(endMs, lastAskedMs + QUIET_MS);
      while (isDraining() && !signal.aborted) await clock.sleep(100, signal).catch(() => undefined);
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      const closed = once(server, 'close');
      server.close();
      for (const socket of connections.keys()) socket.destroy();
      await Promise.all([closed, followed, provedEarly]);
    },
  };
}

async function listenAt(server: Server, path: string): Promise<void> {
  try {
    server.listen({ path });
    await once(server, 'listening');
  } catch (cause) {
    if (errnoOf(cause) !== 'EADDRINUSE') throw cause;
    throw new NetplugError(
      'sidecar/name-taken',
      'Another program of this pod answers for netplug-sidecar, at "@netplug-check"',
      {
        hint: 'Have one container of the image netplug-sidecar in the pod, and no other program at that name',
        cause,
      },
    );
  }
}
