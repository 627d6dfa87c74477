import { lstatSync, rmSync } from 'node:fs';
import { CallServer } from '../apps/agent/call-server.ts';
import type { ServeCall } from '../apps/agent/conversation.ts';
import { IdleTimeout } from '../apps/agent/idle-timeout.ts';
import { onePerContainer } from '../apps/agent/per-container.ts';
import { StderrLines } from '../apps/agent/stderr-lines.ts';
import { systemClock } from '../base/clock.ts';
import { silentLog } from '../base/log.ts';
import { isMissing } from '../base/missing-file.ts';
import { runPlugin } from '../cni/run-plugin.ts';
import { readVariable } from '../config/environment.ts';
import { interruptions } from './interruptions.ts';
import { openOrchIn } from './open-orch.ts';
import { pluginDependencies } from './plugin-dependencies.ts';
import { residentTraces } from './resident-traces.ts';
import { SharedStores } from './shared-stores.ts';

const SOCKET_FD = 3;
/** Time that calls in flight may take after the server has left its socket. */
const CALLS_MS = 70_000;

/**
 * Serves calls without an agent, until it is idle for some seconds, too old, or an agent appears. Holds its lock, which
 * the process inherits, to the end. native/standalone.c opens the descriptors and gives the arguments: the greeting in
 * hexadecimal by which callers recognise a server of theirs; the socket of the agent when the server was started, as
 * `dev:ino` or `none`; and the paths of socket and lock.
 */
export async function runStandaloneServer(args: readonly string[]): Promise<void> {
  const { env } = process;
  const [hello = '', agent = '', socketPath = '', lockPath = ''] = args;
  const agentPath = readVariable(env, 'NETPLUG_SOCKET');
  const idleTimeout = new IdleTimeout({
    clock: systemClock,
    hasAgent: () => ![agent, 'none'].includes(inodeAt(agentPath)),
  });
  const stores = new SharedStores();
  const traces = residentTraces(env, silentLog);
  const server = new CallServer({
    // What fails is told to the caller, which serves the call itself.
    log: silentLog,
    clock: systemClock,
    hello: Buffer.from(hello, 'hex'),
    onCount: idleTimeout.setInFlight,
    serve: onePerContainer(serveCallOn(stores, traces), systemClock, () => undefined),
  });
  await server.adopt(SOCKET_FD, socketPath);
  server.start();
  await idleTimeout.ended(interruptions());
  // Callers whose connection ends repeat the call, so a call that is still running must end with the process, at once.
  if (await server.stop(CALLS_MS)) {
    await traces[Symbol.asyncDispose]();
    await stores[Symbol.asyncDispose]();
  }
  rmSync(lockPath, { force: true });
  process.exit(0);
}

function serveCallOn(stores: SharedStores, traces: ReturnType<typeof residentTraces>): ServeCall {
  // The environment of every call is that of the process but for variables of the call.
  const openKernel = pluginDependencies({
    env: process.env,
    interrupted: new AbortController().signal,
    readStdin: async () => Promise.resolve(''),
  }).openKernel;
  const kernels = { own: openKernel({ allowOwnNetns: true }), others: openKernel({ allowOwnNetns: false }) };
  return async ({ kind, env, stdin }, gone) => {
    const stderr = new StderrLines();
    const dependencies = pluginDependencies({
      env,
      interrupted: gone,
      readStdin: async () => Promise.resolve(stdin),
      writeStderr: stderr.write,
    });
    const { stdout, status, record } = await runPlugin(kind === 'netplug-ipam' ? 'netplug-ipam' : 'netplug', {
      ...dependencies,
      openStore: stores.openIn(env),
      openOrch: openOrchIn(env, stores.transport),
      openKernel: ({ allowOwnNetns }) => (allowOwnNetns ? kernels.own : kernels.others),
    });
    traces.add(record);
    return { stdout, status, stderr: stderr.text };
  };
}

/** Returns `dev:ino` of the file, or `none`. */
function inodeAt(path: string): string {
  try {
    const { dev, ino } = lstatSync(path, { bigint: true });
    return `${String(dev)}:${String(ino)}`;
  } catch (cause) {
    if (isMissing(cause)) return 'none';
    throw cause;
  }
}
