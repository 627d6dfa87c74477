// Throw-away network namespaces, addressed by name. Needs root and iproute2.
import { execFile, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { buildNative } from '../../scripts/build-native.ts';
import { type Addon, loadAddon } from '../../src/dataplane/linux/addon.ts';
import { removeAtEnd } from './janitor.ts';

const run = promisify(execFile);

export interface TestNetns extends AsyncDisposable {
  readonly name: string;
  /** What a runtime would pass in CNI_NETNS. */
  readonly path: string;
  /** Runs a program inside and returns its standard output; rejects when it fails. */
  exec(...command: [string, ...string[]]): Promise<string>;
  /** The answer of `ip -j …` inside, decoded. */
  ip(...args: string[]): Promise<readonly IpObject[]>;
  /** Adds an address with its prefix length, which is in use at once: IPv6 would first look for others that have it. */
  addAddress(cidr: string, device: string): Promise<void>;
  /** Reports whether a packet to the address comes back (IPv6 link-local as `address%device`); sends one a second for 15 s. */
  ping(address: string): Promise<boolean>;
  /** Reports whether a single packet to the address comes back within 3 s, or so many as given. */
  pingOnce(address: string, seconds?: number): Promise<boolean>;
}

/** A JSON object of iproute2; what is in it is for the test to know. */
// oxlint-disable-next-line typescript/no-explicit-any -- an oracle's free-form answer, read by tests only
type IpObject = Record<string, any>;

/** Makes a namespace with loopback up. `await using` removes it, and every link that ends in it. */
export async function newNetns(): Promise<TestNetns> {
  const name = `npl-test-${randomBytes(5).toString('hex')}`;
  removeAtEnd('netns', name);
  await run('ip', ['netns', 'add', name]);
  const path = `/run/netns/${name}`;
  // nsenter, not "ip netns exec": that makes a mount namespace of its own.
  const exec = async (...command: [string, ...string[]]): Promise<string> =>
    (await run('nsenter', [`--net=${path}`, ...command])).stdout;
  await exec('ip', 'link', 'set', 'dev', 'lo', 'up');
  const isAnswered = async (...args: string[]): Promise<boolean> =>
    exec('ping', '-n', ...args).then(
      () => true,
      () => false,
    );
  return {
    name,
    path,
    exec,
    ip: async (...args) => {
      const json = await exec('ip', '-j', ...args);
      // Depending on the object, an empty list is printed as nothing at all.
      return JSON.parse(json === '' ? '[]' : json) as IpObject[];
    },
    addAddress: async (cidr, device) => {
      const atOnce = cidr.includes(':') ? ['nodad'] : [];
      await exec('ip', 'address', 'add', cidr, 'dev', device, ...atOnce);
    },
    // With a deadline, ping sends until as many are answered as -c says.
    ping: async (address) => isAnswered('-c', '1', '-w', '15', address),
    pingOnce: async (address, seconds = 3) => isAnswered('-c', '1', '-W', String(seconds), address),
    [Symbol.asyncDispose]: async () => {
      await run('ip', ['netns', 'delete', name]).catch((cause: unknown) => {
        // A test may have removed it itself.
        if (!String(cause).includes('No such file')) throw cause;
      });
    },
  };
}

/**
 * Moves the calling thread into the namespace, for the whole life of the process or until `leave`. Call it before
 * anything asynchronous touches the network: the pool threads stay where they were started. Programs started later are
 * inside as well.
 */
export function enterNetns(netns: Pick<TestNetns, 'path'>): { leave(): void } {
  const addon = testAddon();
  const home = openSync('/proc/thread-self/ns/net', 'r');
  moveTo(addon, netns.path);
  return {
    leave: () => {
      const result = addon.setns(home);
      closeSync(home);
      if (result !== 0) throw new Error(`cannot return to the own namespace: ${String(result)}`);
    },
  };
}

/**
 * Starts a process that waits inside, whose folder in /proc shows the namespace. `/proc/thread-self` may not: files are read by
 * threads of a pool, which stay where they were started.
 */
export async function waitInside(netns: Pick<TestNetns, 'path'>): Promise<Disposable & { readonly procDir: string }> {
  const command = [`--net=${netns.path}`, 'sh', '-c', 'echo inside; exec sleep infinity'];
  const child = spawn('nsenter', command, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  return { procDir: `/proc/${String(child.pid)}`, [Symbol.dispose]: () => void child.kill() };
}

/** Compiled when needed. */
function testAddon(): Addon {
  return loadAddon(buildNative());
}

function moveTo(addon: Addon, path: string): void {
  const fd = openSync(path, 'r');
  const result = addon.setns(fd);
  closeSync(fd);
  if (result !== 0) throw new Error(`cannot enter ${path}: ${String(result)}`);
}
