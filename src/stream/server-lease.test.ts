import { describe, expect, it } from 'vitest';
import { readObject } from '../kube/objects.ts';
import { preferredServers } from './choose-server.ts';
import type { ServerEntry } from './handshake.ts';
import { currentServers, type LeasedServer, readServerLease, SERVER_LABEL, serverLease } from './server-lease.ts';

function entryOf(name: string, more: Partial<ServerEntry> = {}): ServerEntry {
  const formats = { oldest: 1, newest: 1 };
  return {
    name,
    addresses: ['192.0.2.1', '2001:db8::1'],
    port: 5473,
    certificate: 'PEM',
    formats,
    isLeaving: false,
    ...more,
  };
}

function leased(name: string, renewedMs: number): LeasedServer {
  return { entry: entryOf(name), release: '1.2.3', clients: 3, oldestClient: '1.2.2', renewedMs };
}

const where = { program: 'netplug-typha', namespace: 'netplug-system', owner: { pod: 'a', uid: 'u' } };

describe('the Lease of a server', () => {
  it('says everything that a client needs, and ends with its pod', () => {
    const server = leased('a', Date.UTC(2026, 0, 1, 0, 0, 0, 250));
    const lease = serverLease(where, server);
    expect(lease).toMatchObject({
      metadata: {
        name: 'netplug-typha-a',
        labels: { [SERVER_LABEL]: 'netplug-typha' },
        ownerReferences: [{ kind: 'Pod', name: 'a', uid: 'u' }],
      },
      spec: { holderIdentity: 'a', renewTime: '2026-01-01T00:00:00.250000Z' },
    });
    const object = readObject(JSON.parse(JSON.stringify(lease)));
    expect(object === undefined ? object : readServerLease(object)).toEqual(server);
  });

  it.each([
    '',
    '{}',
    '"x"',
    JSON.stringify({ ...entryOf('a'), port: 0 }),
    JSON.stringify({ ...entryOf('a'), addresses: 'x' }),
  ])('is none with the annotation %s', (annotation) => {
    const metadata = { name: 'x', annotations: { 'netplug.io/server': annotation } };
    expect(readServerLease({ metadata })).toBeUndefined();
  });

  it('was renewed when the API server says so: a server whose clock is ahead does not make the others outdated', () => {
    const managedFields = [{ manager: 'kubectl', time: '2026-01-01T00:00:01Z' }, { time: '2026-01-01T00:00:10Z' }, {}];
    const read = ['ahead', 'right'].flatMap((name, index) => {
      const lease = serverLease(where, leased(name, Date.UTC(2026, 0, 1, index === 0 ? 1 : 0)));
      const object = readObject(JSON.parse(JSON.stringify(lease)));
      if (object === undefined) return [];
      return readServerLease({ ...object, metadata: { ...object.metadata, managedFields } }) ?? [];
    });
    expect(read.map(({ renewedMs }) => renewedMs)).toEqual(
      [10, 10].map((second) => Date.UTC(2026, 0, 1, 0, 0, second)),
    );
    expect(currentServers(read)).toHaveLength(2);
  });

  it('is outdated compared with those of other servers, whatever the clock of the reader says', () => {
    expect(
      currentServers([leased('a', 1000), leased('b', 29_000), leased('c', 31_001)]).map(({ name }) => name),
    ).toEqual(['b', 'c']);
    expect(currentServers([leased('a', 1000)])).toHaveLength(1);
    expect(currentServers([])).toEqual([]);
  });
});

describe('the choice of a server', () => {
  const nodes = Array.from({ length: 5000 }, (_, index) => `node-${String(index)}`);
  const servers = (count: number, more?: Partial<ServerEntry>): ServerEntry[] =>
    Array.from({ length: count }, (_, index) => entryOf(`typha-${String(index)}`, more));
  const first = (node: string, all: readonly ServerEntry[]): string => preferredServers(node, all)[0]?.name ?? '';
  const largest = (names: readonly string[]): number =>
    Math.max(...[...Map.groupBy(names, (name) => name).values()].map(({ length }) => length));

  it('spreads nodes evenly', () => {
    expect(largest(nodes.map((node) => first(node, servers(11))))).toBeLessThan((1.25 * 5000) / 11);
    expect(largest(nodes.slice(0, 1000).map((node) => first(node, servers(3))))).toBeLessThan((1.25 * 1000) / 3);
  });

  it('moves only the nodes that prefer a server that is new', () => {
    for (const count of [2, 3, 10]) {
      const moved = nodes.filter((node) => first(node, servers(count)) !== first(node, servers(count + 1)));
      expect(moved.every((node) => first(node, servers(count + 1)) === `typha-${String(count)}`)).toBe(true);
      expect(moved.length).toBeLessThan((1.1 * 5000) / (count + 1));
    }
  });

  it('does not depend on the order in which servers are known', () => {
    for (const node of nodes.slice(0, 100)) expect(first(node, servers(5).reverse())).toBe(first(node, servers(5)));
  });

  it('prefers those that stay; while its own one stays those that were started with it, then those that replace it', () => {
    const old = servers(2, { generation: 'old' });
    const fresh = [
      entryOf('fresh', { generation: 'fresh' }),
      entryOf('leaving', { generation: 'fresh', isLeaving: true }),
    ];
    for (const node of nodes.slice(0, 50)) {
      const order = (isLeaving: boolean): string[] =>
        preferredServers(node, [...old, ...fresh], { name: 'typha-0', isLeaving }).map(({ name }) => name);
      expect(order(true)[0]).toBe('fresh');
      expect(order(false)[2]).toBe('fresh');
      expect([order(true).at(-1), order(false).at(-1)]).toEqual(['leaving', 'leaving']);
    }
  });
});
