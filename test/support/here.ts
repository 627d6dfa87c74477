// Programs in the namespaces of the test itself, with the same handle as those on a test node.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { RunOptions, RunResult, Service, TestNode } from './node.ts';
import { stopThreads } from './stop-threads.ts';

/** Where programs run: a test node, or `here`. */
export type Place = Pick<TestNode, 'run' | 'start'>;

export const here: Place = {
  run: async ([file, ...args], { env = {}, stdin = '' }: RunOptions = {}): Promise<RunResult> => {
    const child = spawn(file!, args, { env: { ...process.env, ...env }, stdio: 'pipe' });
    const output = { stdout: '', stderr: '' };
    for (const stream of ['stdout', 'stderr'] as const) {
      child[stream].setEncoding('utf8').on('data', (text: string) => (output[stream] += text));
    }
    // A program may end without reading its input.
    child.stdin.on('error', () => undefined);
    child.stdin.end(stdin);
    const [status] = (await once(child, 'close')) as [number | null];
    return { status: status ?? undefined, ...output };
  },
  start: async (command, { env = {} } = {}): Promise<Service> => {
    // The kernel ends it when the test dies without having done so.
    const child = spawn('setpriv', ['--pdeathsig', 'KILL', '--', ...command], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => (output = `${output}${text}`.slice(-100_000)));
    }
    const gone = once(child, 'exit');
    await once(child, 'spawn');
    return {
      pid: child.pid!,
      ended: gone,
      log: () => output,
      stop: async (signal = 'TERM') => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        child.kill(`SIG${signal}`);
        await gone;
      },
      pause: async () => stopThreads(child.pid!),
      resume: async () => Promise.resolve(void child.kill('SIGCONT')),
    };
  },
};
