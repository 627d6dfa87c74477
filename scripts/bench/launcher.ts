// The measuring program inside a node: it starts other programs there, one after the other or many at once.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, renameSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestNode, until } from '../../test/support/node.ts';
import type { Sample } from './statistics.ts';

export interface Job {
  readonly argv: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

export interface Run extends Sample {
  /** Exit status; 128 and more when a signal ended it. */
  readonly status: number;
  readonly stdout: string;
}

export interface Batch {
  /** In the order of the jobs. */
  readonly runs: readonly Run[];
  /** From the start of the first to the end of the last. */
  readonly ms: number;
}

export interface Launcher extends AsyncDisposable {
  run(jobs: readonly Job[], options?: { readonly atOnce?: number }): Promise<Batch>;
  /** What the programs have printed on standard error. */
  log(): string;
}

const RUN_HEAD_BYTES = 24;
const NS_PER_MS = 1e6;
const built = new Set<string>();

/** Several of one node need different names. */
export async function startLauncher(node: TestNode, name = 'launcher'): Promise<Launcher> {
  const socketPath = join(node.dir, `${name}.sock`);
  const service = await node.start([buildProgram('launcher'), socketPath]);
  await until(
    () => service.log().includes('listening'),
    () => `the launcher listens:\n${service.log()}`,
  );
  const socket = connect(socketPath);
  await once(socket, 'connect');
  const reader = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer<ArrayBuffer>>;
  let buffered = Buffer.alloc(0);
  const read = async (length: number): Promise<Buffer> => {
    const parts = [buffered];
    for (let have = buffered.length; have < length;) {
      const { done, value } = await reader.next().catch((cause: unknown) => {
        throw new Error(`the launcher is gone:\n${service.log()}`, { cause });
      });
      if (done === true) throw new Error(`the launcher has ended:\n${service.log()}`);
      parts.push(value);
      have += value.length;
    }
    const all = Buffer.concat(parts);
    buffered = all.subarray(length);
    return all.subarray(0, length);
  };
  return {
    run: async (jobs, { atOnce = 1 } = {}) => {
      socket.write(encodeBatch(jobs, atOnce));
      const runs: Run[] = [];
      for (const _ of jobs) runs.push(await readRun(read));
      return { runs, ms: msOf(await read(8), 0) };
    },
    log: () => service.log(),
    [Symbol.asyncDispose]: async () => {
      await close(socket);
      await service.stop();
    },
  };
}

/** Compiles the C program of that name in this folder, once, and returns where it is. */
export function buildProgram(name: string): string {
  const output = join(import.meta.dirname, `../../build/bench-${name}`);
  if (built.has(name)) return output;
  mkdirSync(join(output, '..'), { recursive: true });
  const flags = ['-std=gnu11', '-O2', '-static', '-s', '-Wall', '-Wextra', '-Werror'];
  // Another process may be about to start it.
  const candidate = `${output}.${String(process.pid)}`;
  execFileSync('gcc', [...flags, '-o', candidate, join(import.meta.dirname, `${name}.c`)], { stdio: 'inherit' });
  renameSync(candidate, output);
  built.add(name);
  return output;
}

function encodeBatch(jobs: readonly Job[], atOnce: number): Buffer {
  return Buffer.concat([numbers(atOnce, jobs.length), ...jobs.map(encodeJob)]);
}

function encodeJob({ argv, env, stdin }: Job): Buffer {
  const strings = (texts: readonly string[]): Buffer => Buffer.from(texts.map((text) => `${text}\0`).join(''));
  const parts = [
    strings(argv),
    strings(Object.entries(env).map(([key, value]) => `${key}=${value}`)),
    Buffer.from(stdin),
  ];
  return Buffer.concat([numbers(...parts.map(({ length }) => length)), ...parts]);
}

function numbers(...values: readonly number[]): Buffer {
  return Buffer.from(Uint32Array.from(values).buffer);
}

async function readRun(read: (length: number) => Promise<Buffer>): Promise<Run> {
  const head = await read(RUN_HEAD_BYTES);
  const stdout = (await read(head.readUInt32LE(20))).toString('utf8');
  return { status: head.readUInt32LE(0), ms: msOf(head, 4), cpuMs: msOf(head, 12), stdout };
}

function msOf(bytes: Buffer, offset: number): number {
  return Number(bytes.readBigUInt64LE(offset)) / NS_PER_MS;
}

async function close(socket: Socket): Promise<void> {
  if (socket.closed) return;
  socket.destroy();
  await once(socket, 'close');
}
