// The resident agent of a test node.
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { RunResult, Service, TestNode } from './node.ts';
import { until } from './until.ts';
import { ensureUplink } from './uplink.ts';
import { BUILT, NETPLUGCTL } from './built.ts';

/** Whether calls are served by an agent, or by the standalone program that the shim executes when there is none. */
export type Mode = 'agent' | 'standalone';

export interface Agent extends Service, AsyncDisposable {
  /** For NETPLUG_SOCKET of the programs that shall find it. */
  readonly socket: string;
  /** Asks its health endpoint, whose pages may have been made a moment before; `body` is empty without an answer. */
  ask(
    path: '/healthz' | '/readyz' | `/readyz?pod=${string}` | '/metrics',
  ): Promise<{ readonly status: number; readonly body: string }>;
  /** Waits until it can serve calls; rejects when it ends instead. */
  ready(): Promise<void>;
  /** Waits until it has no call under way and everything it has decided is in the datastore, or it has ended. */
  settled(): Promise<void>;
}

export interface AgentOptions {
  /** In the folder of the node unless given. */
  readonly socket?: string;
  /** What is started instead of the built program. */
  readonly command?: readonly string[];
  /** Adds to its environment, or replaces what is there. */
  readonly env?: Readonly<Record<string, string>>;
}

const PROGRAM = join(BUILT, 'netplug-agent');
const HEALTH = '127.0.0.1:9199';

/** The mode of this run of the tests. */
export const MODE: Mode = process.env['NETPLUG_TEST_MODE'] === 'agent' ? 'agent' : 'standalone';

/** Starts it inside, with the etcd of the node unless `env` names another, and waits until it is ready. */
export async function startAgent(
  node: Pick<TestNode, 'name' | 'dir' | 'start' | 'run'>,
  options: AgentOptions = {},
): Promise<Agent> {
  const agent = await launchAgent(node, options);
  try {
    await agent.ready();
  } catch (cause) {
    await agent.stop('KILL');
    throw cause;
  }
  return agent;
}

/** Starts it and does not wait. */
export async function launchAgent(
  node: Pick<TestNode, 'name' | 'dir' | 'start' | 'run'>,
  { socket = join(node.dir, 'agent/cni.sock'), command = [PROGRAM], env = {} }: AgentOptions = {},
): Promise<Agent> {
  if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} is missing: run "make build" first`);
  if (env['NETPLUG_NETWORKING'] !== 'off') await ensureUplink(node);
  const service = await node.start(command, {
    env: {
      NODENAME: node.name,
      DATASTORE_TYPE: 'kvv3',
      KV_ENDPOINTS: 'http://127.0.0.1:2379',
      NETPLUG_SOCKET: socket,
      // Nodes may share /run.
      NETPLUG_RUN_DIR: dirname(socket),
      NETPLUG_HEALTH_ADDRESS: HEALTH,
      ...env,
    },
  });
  let hasEnded = false;
  void service.ended.then(() => (hasEnded = true));
  const curl = async (...args: string[]): ReturnType<Agent['ask']> => {
    const { stdout } = await node.run([
      'curl',
      '--silent',
      '--max-time',
      '20',
      '--write-out',
      '\n%{http_code}',
      ...args,
    ]);
    const end = stdout.lastIndexOf('\n');
    return { status: Number(stdout.slice(end + 1)), body: stdout.slice(0, end) };
  };
  const ask: Agent['ask'] = async (path) => curl(`http://${HEALTH}${path}`);
  const probes = join(dirname(socket), 'probes.sock');
  const settled = async (): Promise<void> =>
    until(
      // Of this page there is none from before the call.
      async () => hasEnded || isIdle((await curl('--unix-socket', probes, 'http://agent/metrics')).body),
      () => `everything is published; the agent says:\n${service.log()}`,
    );
  const ready = async (): Promise<void> => {
    await until(
      async () => hasEnded || (await ask('/readyz')).status === 200,
      () => `the agent is ready; it says:\n${service.log()}`,
    );
    if (hasEnded) throw new Error(`the agent has ended; it said:\n${service.log()}`);
  };
  return { ...service, socket, ask, ready, settled, [Symbol.asyncDispose]: async () => service.stop() };
}

/** Shows the last calls that the agent has served. */
export async function traceOn(node: Pick<TestNode, 'run'>, { socket }: Agent, ...flags: string[]): Promise<RunResult> {
  return node.run([NETPLUGCTL, 'trace', '--socket', socket, ...flags]);
}

function isIdle(metrics: string): boolean {
  return ['netplug_calls_in_flight', 'netplug_pending_writes'].every((name) => metrics.includes(`\n${name} 0\n`));
}
