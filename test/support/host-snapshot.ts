// Everything of a host that netplug may change, to compare it before and after.
import { execFileSync } from 'node:child_process';
import type { Json, TestNode } from './node.ts';

/** Sorted lines or documents, by what they are about. */
export type HostSnapshot = Readonly<Record<string, unknown>>;

/** Where programs keep files on a host, below which a node shows the machine's own files as well. */
const SHARED_PLACES = ['/etc/cni', '/opt/cni', '/var/lib', '/var/log'];
/** They change all the time. */
const MOVING =
  /^net\.(netfilter\.nf_conntrack_count|ipv4\.tcp_fastopen_key|core\.netdev_rss_key)|^net\.ipv6\.conf\..*stable_secret/;
const MOVING_KEYS = new Set(['handle', 'valid_life_time', 'preferred_life_time', 'expires', 'hw_offload']);

/** Returns the present state of the host: links, addresses, routes, rules, packet filter, settings, files and processes. */
export async function snapshotOf(node: Pick<TestNode, 'exec'>): Promise<HostSnapshot> {
  const lines = async (script: string): Promise<readonly string[]> =>
    (await node.exec('sh', '-c', script)).split('\n').filter((line) => line !== '');
  const json = async (...command: [string, ...string[]]): Promise<Json> => {
    const text = await node.exec(...command);
    return JSON.parse(text === '' ? '[]' : text, (key, value: unknown) => (MOVING_KEYS.has(key) ? undefined : value));
  };
  return {
    links: await json('ip', '-j', '-d', 'link'),
    addresses: await json('ip', '-j', 'address'),
    routes: await json('ip', '-j', '-4', 'route', 'show', 'table', 'all'),
    routes6: await json('ip', '-j', '-6', 'route', 'show', 'table', 'all'),
    rules: [await json('ip', '-j', '-4', 'rule'), await json('ip', '-j', '-6', 'rule')],
    filter: await json('nft', '-j', 'list', 'ruleset'),
    settings: (await lines("sysctl -a --pattern '^net[.]' 2>/dev/null")).filter((line) => !MOVING.test(line)).sort(),
    files: await filesOf(lines),
    // Without the programs that take the snapshot, and without processes that ended: no process of a box reaps them.
    processes: (await lines('ps -e -o args=')).filter((line) => !/ps -e|<defunct>/.test(line)).sort(),
  };
}

/**
 * Lists the files of the host, and what it has removed of those of the machine. Other programs change files of the machine
 * meanwhile, so its files are listed before and after, and none of these counts.
 */
async function filesOf(lines: (script: string) => Promise<readonly string[]>): Promise<readonly string[]> {
  const find = `find ${SHARED_PLACES.join(' ')} -xdev 2>/dev/null; true`;
  const machineFiles = (): ReadonlySet<string> =>
    new Set(execFileSync('sh', ['-c', find], { encoding: 'utf8', maxBuffer: 64 << 20 }).split('\n'));
  const before = machineFiles();
  const files = new Set(await lines(find));
  const after = machineFiles();
  const own = [...files].filter((path) => !before.has(path) && !after.has(path));
  const removed = [...before].filter((path) => path !== '' && after.has(path) && !files.has(path));
  const inRun = await lines('find /run -xdev');
  return [...own, ...removed.map((path) => `${path} (removed)`), ...inRun].sort();
}
