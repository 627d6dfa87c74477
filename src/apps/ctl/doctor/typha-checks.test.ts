import { describe, expect, it } from 'vitest';
import { expectEachCheck } from '../../../../test/support/checks.ts';
import { judgeAll } from '../../../checks/check.ts';
import { TYPHA_CLUSTER_CHECKS, type TyphaClusterFacts } from './typha-cluster-checks.ts';
import { TYPHA_NODE_CHECKS, type TyphaNodeFacts } from './typha-node-checks.ts';

const TRIED = { server: 'typha-1', port: 5473, failures: {} };
const SERVED: TyphaNodeFacts = { fanOut: { server: 'typha-1', moves: 0 }, tried: undefined };
const lost = (lastCode?: string): TyphaNodeFacts['fanOut'] => ({
  moves: 1,
  lastError: 'typha-1: refused',
  ...(lastCode === undefined ? {} : { lastCode }),
});
const SERVERS: TyphaClusterFacts = {
  wanted: 2,
  servers: ['typha-1', 'typha-2'].map((name) => ({ name, renewedMsAgo: 4000, clients: 3 })),
  failed: [],
  nodes: 6,
  hasPolicies: false,
  closed: [],
};

describe('doctor checks of what the agent follows through netplug-typha', () => {
  expectEachCheck(TYPHA_NODE_CHECKS, SERVED, {
    unreachable: {
      fanOut: lost(),
      tried: [{ ...TRIED, failures: { '192.0.2.1': 'connect ECONNREFUSED 192.0.2.1:5473' } }],
    },
    'pod-cidr-mismatch': { fanOut: lost('typha/pod-cidr-mismatch'), tried: [TRIED] },
    format: { fanOut: lost('stream/format-unsupported'), tried: [TRIED] },
  });

  it.each([
    [
      'names each server that this machine cannot reach',
      [TRIED, { ...TRIED, failures: { '192.0.2.1': 'no answer within 3 s' } }],
      [/cannot connect to typha-1 at 192\.0\.2\.1, port 5473: no answer .*: typha-1: refused/],
    ],
    [
      'does not blame the network where every server accepts connections',
      [TRIED],
      [/every server accepts connections .*: typha-1: refused/],
    ],
    ['says when there is no server at all', [], [/none renews a Lease/]],
    ['says what the agent says where Leases cannot be read', undefined, [/serves this node: typha-1: refused/]],
  ] as const)('%s', (_, tried, expected) => {
    const found = judgeAll(TYPHA_NODE_CHECKS, { fanOut: lost(), tried }).map((finding) => finding.found);
    expect(found).toHaveLength(expected.length);
    expected.forEach((pattern, index) => expect(found[index]).toMatch(pattern));
  });

  it('find nothing where the agent does not use it', () => {
    expect(judgeAll(TYPHA_NODE_CHECKS, { fanOut: undefined, tried: undefined })).toEqual([]);
  });
});

describe('doctor checks of the servers of netplug-typha', () => {
  const old = { name: 'typha-2', renewedMsAgo: 200_000, clients: 3 };
  expectEachCheck(TYPHA_CLUSTER_CHECKS, SERVERS, {
    'too-few': { servers: SERVERS.servers.slice(1) },
    'not-current': { servers: [...SERVERS.servers.slice(1), old] },
    'port-taken': { failed: [{ node: 'node-a', output: 'Cannot listen on [::]:5473: listen EADDRINUSE' }] },
    'not-failsafe': { closed: ['AgentConfiguration default: failsafeInboundHostPorts'] },
    recommended: { wanted: undefined, servers: [], nodes: 250, hasPolicies: true },
  });

  it('do not recommend it without policies, and not to a small cluster', () => {
    const without = { ...SERVERS, wanted: undefined, servers: [] };
    expect(judgeAll(TYPHA_CLUSTER_CHECKS, { ...without, nodes: 900 })).toEqual([]);
    expect(judgeAll(TYPHA_CLUSTER_CHECKS, { ...without, nodes: 199, hasPolicies: true })).toEqual([]);
  });
});
