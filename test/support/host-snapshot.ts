// Everything of a host that netplug may change, to compare it before and after.
import type { Json, TestNode } from './node.ts';

/** Sorted lines or documents, by what they are about. */
export type HostSnapshot = Readonly<Record<string, unknown>>;

/** Where programs keep files on a host; what an etcd of the test writes is elsewhere. */
const PLACES = ['/etc/cni', '/opt/cni', '/run', '/var/lib', '/var/log', '/var/run'];
/** They differ from one moment to the next, whatever anybody does. */
const MOVING =
  /^net\.(netfilter\.nf_conntrack_count|ipv4\.tcp_fastopen_key|core\.netdev_rss_key)|^net\.ipv6\.conf\..*stable_secret/;
const MOVING_KEYS = new Set(['handle', 'valid_life_time', 'preferred_life_time', 'expires', 'hw_offload']);

/** What the host is now: links, addresses, routes, rules, packet filter, settings, files and processes. */
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
    files: await lines(`find ${PLACES.join(' ')} -xdev 2>/dev/null | sort -u`),
    // Without those that take the snapshot, and dead ones: the first process of a box buries nobody.
    processes: (await lines('ps -e -o args=')).filter((line) => !/ps -e|<defunct>/.test(line)).sort(),
  };
}
