import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { program } from './components.ts';
import { freePort } from './free-port.ts';
import { removeAtEnd } from './janitor.ts';
import { stopThreads } from './stop-threads.ts';

export interface EtcdTls {
  readonly keyFile: string;
  readonly certFile: string;
  /** When given, clients must show a certificate that one of its authorities issued. */
  readonly clientCaFile?: string;
}

/** A real etcd of one member on free loopback ports. `await using` stops it and removes its data. */
export interface Etcd extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** Kills it and starts it again with its data at the same ports. */
  restart(): Promise<void>;
  /** Writes a key, without the time that etcdctl takes to start. Not with TLS. */
  put(key: string, value: string): Promise<void>;
  /** Removes every key. Not with TLS. */
  empty(): Promise<void>;
  /** Copies its data while it is stopped. Returns what puts the copy back, and starts it again at the same ports. */
  backUp(): Promise<() => Promise<void>>;
  /** Stops it where it is (SIGSTOP): connections stay, and nothing is answered, as long as it is not resumed. */
  pause(): Promise<void>;
  resume(): void;
}

/** Starts etcd and waits until it serves clients. */
export async function startEtcd(
  options: { readonly tls?: EtcdTls; readonly host?: string; readonly env?: Readonly<Record<string, string>> } = {},
): Promise<Etcd> {
  const { tls, host = '127.0.0.1', env = {} } = options;
  const dir = await mkdtemp(join(tmpdir(), 'netplug-etcd-'));
  removeAtEnd('folder', dir);
  const [port, peerPort] = [await freePort(), await freePort()];
  const scheme = tls === undefined ? 'http' : 'https';
  const peer = `http://127.0.0.1:${String(peerPort)}`;
  const url = `${scheme}://${host}:${String(port)}`;
  const command = [
    // Tests need no durability, and a slow disk must not slow them down.
    '--unsafe-no-fsync',
    '--logger=zap',
    '--log-outputs=stderr',
    '--name=one',
    `--data-dir=${join(dir, 'data')}`,
    `--listen-client-urls=${scheme}://127.0.0.1:${String(port)}`,
    `--advertise-client-urls=${url}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=one=${peer}`,
    ...(tls === undefined ? [] : [`--key-file=${tls.keyFile}`, `--cert-file=${tls.certFile}`]),
    ...(tls?.clientCaFile === undefined ? [] : ['--client-cert-auth', `--trusted-ca-file=${tls.clientCaFile}`]),
  ];
  let running: Running | undefined;
  const restart = async (whileStopped?: () => Promise<void>): Promise<void> => {
    await running?.kill();
    await whileStopped?.();
    running = await run(command, env);
  };
  const stop = async (): Promise<void> => {
    await running?.kill();
    await rm(dir, { recursive: true, force: true });
  };
  try {
    running = await run(command, env);
  } catch (cause) {
    await stop();
    throw cause;
  }
  const write = async (method: string, body: object): Promise<void> => {
    // A restart breaks connections that are kept.
    const headers = { connection: 'close' };
    const gateway = `http://127.0.0.1:${String(port)}/v3/kv/${method}`;
    const answer = await fetch(gateway, { method: 'POST', headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`etcd answers ${String(answer.status)}: ${await answer.text()}`);
    await answer.arrayBuffer();
  };
  const encode = (text: string): string => Buffer.from(text).toString('base64');
  return {
    url,
    port,
    restart,
    put: async (key, value) => write('put', { key: encode(key), value: encode(value) }),
    empty: async () => write('deleterange', { key: encode('\0'), range_end: encode('\0') }),
    backUp: async () => {
      const [data, backup] = [join(dir, 'data'), join(dir, 'backup')];
      await restart(async () => cp(data, backup, { recursive: true }));
      return async () =>
        restart(async () => {
          await rm(data, { recursive: true });
          await cp(backup, data, { recursive: true });
        });
    },
    pause: async () => running?.pause(),
    resume: () => running?.resume(),
    [Symbol.asyncDispose]: stop,
  };
}

interface Running {
  pause(): Promise<void>;
  resume(): void;
  kill(): Promise<void>;
}

/** One process, once it serves clients. */
async function run(command: readonly string[], env: Readonly<Record<string, string>>): Promise<Running> {
  // The kernel ends it when the test dies without having done so.
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', '--', program('etcd'), ...command], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, ...env },
  });
  let log = '';
  const ready = new Promise<void>((resolve) => {
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      log = `${log}${text}`.slice(-8000);
      if (/serving (insecure )?client/.test(log)) resolve();
    });
  });
  const gone = once(child, 'exit');
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await gone;
  };
  const outcome = await Promise.race([
    ready.then(() => 'ready'),
    gone.then(() => 'gone'),
    sleep(20_000, 'late', { ref: false }),
  ]);
  if (outcome === 'ready')
    return { kill, pause: async () => stopThreads(child.pid!), resume: () => child.kill('SIGCONT') };
  await kill();
  throw new Error(`etcd did not start: ${outcome}\n${log}`);
}
