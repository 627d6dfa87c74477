// The process of fan-out-server.ts, as the row sees it.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';
import type { ServerEntry } from '../../src/stream/handshake.ts';
import type { RecordsDigest } from '../../test/support/follow-swarm.ts';
import type { ReplayedApi } from '../../test/support/replayed-api.ts';
import { MALLOC } from '../images/declared.ts';
import { CLUSTER, PODS_VARIABLE } from './fan-out-cluster.ts';

const PROGRAM = join(import.meta.dirname, 'fan-out-server.ts');
/** As the programs are built: scripts/build.ts. */
const SEMI_SPACE = '--max-semi-space-size=2';
/** For what is no module yet in a bundle of modules. */
const REQUIRE = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";

export interface ServerUsage {
  readonly cpuMs: number;
  readonly rssMb: number;
  /** What is used of the heap of JavaScript. */
  readonly heapMb: number;
  /** The most that it ever was. */
  readonly peakMb: number;
  readonly clients: number;
  readonly api: Readonly<ReplayedApi['counts']>;
  readonly records: number;
}

type Call =
  | { readonly what: 'entry' | 'isLoaded' | 'usage' | 'collect' | 'convert' | 'digest' }
  | { readonly what: 'write'; readonly mark: string }
  | { readonly what: 'churn'; readonly podsPerSecond: number };
export type ServerCall = Call & { readonly id: number };

export interface ServerReply {
  readonly id: number;
  readonly value: unknown;
}

export interface FanOutProcess extends AsyncDisposable {
  entry(): Promise<ServerEntry>;
  /** Whether every topic was read. */
  isLoaded(): Promise<boolean>;
  usage(): Promise<ServerUsage>;
  /** Collects garbage first. */
  collect(): Promise<ServerUsage>;
  /** Returns when the policy with the mark was written, by CLOCK_MONOTONIC. */
  write(mark: string): Promise<bigint>;
  churn(podsPerSecond: number): Promise<void>;
  /** Returns the processor time in which records are made of all pods and endpoints. */
  convert(): Promise<number>;
  /** The records as a follower of the API has them. */
  digest(): Promise<RecordsDigest>;
}

/** Starts a server of a cluster with so many pods. */
export async function startFanOutProcess(pods: number = CLUSTER.pods): Promise<FanOutProcess> {
  await using scope = new AsyncDisposableStack();
  const dir = scope.adopt(mkdtempSync(join(tmpdir(), 'netplug-bench-')), (path) => rmSync(path, { recursive: true }));
  // Bundled, as the programs are: to read three hundred files of TypeScript takes memory and time of its own.
  const program = join(dir, 'server.mjs');
  const form = { bundle: true, platform: 'node', target: 'node24', format: 'esm' } as const;
  await build({ ...form, entryPoints: [PROGRAM], outfile: program, banner: { js: REQUIRE } });
  const env = { ...process.env, ...MALLOC, [PODS_VARIABLE]: String(pods) };
  const child = scope.adopt(fork(program, [], { execArgv: ['--expose-gc', SEMI_SPACE], env }), end);
  const ended = once(child, 'exit').then(([status]) => {
    throw new Error(`the server ended with ${String(status)}`);
  });
  ended.catch(() => undefined);
  await Promise.race([once(child, 'message'), ended]);
  const waiting = new Map<number, (value: unknown) => void>();
  child.on('message', ({ id, value }: ServerReply) => {
    waiting.get(id)?.(value);
    waiting.delete(id);
  });
  let calls = 0;
  const ask = async <T>(call: Call): Promise<T> => {
    calls += 1;
    const { promise, resolve } = Promise.withResolvers<unknown>();
    waiting.set(calls, resolve);
    child.send({ ...call, id: calls });
    // What the server says is what fan-out-server.ts returns.
    return (await Promise.race([promise, ended])) as T;
  };
  const kept = scope.move();
  return {
    entry: async () => ask({ what: 'entry' }),
    isLoaded: async () => ask({ what: 'isLoaded' }),
    usage: async () => ask({ what: 'usage' }),
    collect: async () => ask({ what: 'collect' }),
    write: async (mark) => BigInt(await ask<string>({ what: 'write', mark })),
    churn: async (podsPerSecond) => ask({ what: 'churn', podsPerSecond }),
    convert: async () => ask({ what: 'convert' }),
    digest: async () => ask({ what: 'digest' }),
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.disconnect();
  await gone;
}
