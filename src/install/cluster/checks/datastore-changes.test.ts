import { describe, expect, it } from 'vitest';
import type { ClusterDatastore } from '../settings.ts';
import { datastoreChanges } from './datastore-changes.ts';

const etcd = (endpoints: string, tls: 'none' | 'secret' = 'secret'): ClusterDatastore => ({
  type: 'kvv3',
  endpoints,
  tls,
});
const TWO = etcd('https://10.0.0.1:2379,https://10.0.0.2:2379');
const PLAIN = etcd('http://10.0.0.1:2379', 'none');

describe('a repeated installation', () => {
  it.each<[string, ClusterDatastore, ClusterDatastore]>([
    ['the API of Kubernetes', { type: 'orch' }, { type: 'orch' }],
    ['the same etcd', TWO, TWO],
    ['endpoints in another order', TWO, etcd('https://10.0.0.2:2379,https://10.0.0.1:2379')],
    [
      'endpoints in another spelling',
      etcd('https://Etcd.Example:443, https://b:1'),
      etcd('https://etcd.example/,https://c:1'),
    ],
    ['one new member', TWO, etcd('https://10.0.0.3:2379,https://10.0.0.2:2379')],
    ['TLS for the first time', PLAIN, etcd('https://10.0.0.1:2379')],
  ])('may have %s', (_, runs, wanted) => {
    expect(datastoreChanges(runs, wanted)).toEqual([]);
  });

  it.each<[string, ClusterDatastore, ClusterDatastore, readonly [field: string, found: RegExp][]]>([
    ['another type', { type: 'orch' }, PLAIN, [['--datastore', /in the API of Kubernetes/]]],
    ['another type', PLAIN, { type: 'orch' }, [['--datastore', /in etcd/]]],
    [
      'another etcd',
      TWO,
      etcd('https://10.0.0.9:2379'),
      [['KV_ENDPOINTS', /none of the endpoints .*10\.0\.0\.2:2379/]],
    ],
    ['another port', PLAIN, etcd('http://10.0.0.1:2479', 'none'), [['KV_ENDPOINTS', /none of the endpoints/]]],
    ['no certificates', TWO, etcd('https://10.0.0.1:2379', 'none'), [['KV_CERT_FILE', /would lose/]]],
    [
      'another etcd without certificates',
      TWO,
      etcd('http://10.0.0.9:2379', 'none'),
      [
        ['KV_ENDPOINTS', /none of the endpoints/],
        ['KV_CERT_FILE', /would lose/],
      ],
    ],
    ['no encryption', etcd('https://10.0.0.1:2379', 'none'), PLAIN, [['KV_ENDPOINTS', /is not encrypted/]]],
    ['endpoints of agents that find them by DNS', etcd('', 'none'), PLAIN, [['KV_ENDPOINTS', /name no endpoints/]]],
  ])('may not have %s', (_, runs, wanted, expected) => {
    expect(datastoreChanges(runs, wanted)).toEqual(
      expected.map(([field, found]) => ({ field, found: expect.stringMatching(found), remedy: expect.any(String) })),
    );
  });
});
