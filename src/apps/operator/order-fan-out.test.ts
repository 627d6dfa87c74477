import { describe, expect, it } from 'vitest';
import { clusterObjects } from '../../install/cluster/cluster-objects.ts';
import { settingsOf } from '../../install/cluster/settings-of.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { holdOfServers, orderFanOut } from './order-fan-out.ts';

const NOW = Date.parse('2026-11-29T12:00:00Z');
const STAGES = clusterObjects(
  settingsOf(
    { typha: { mode: 'Enabled' } },
    {
      release: 'v3.27.0',
      variant: 'policy-and-networking',
      datastore: { type: 'orch' },
      defaultPools: [],
      nodes: 3,
    },
  ),
);

const labelled = (name: string, release: string, more: object = {}): ApiObject => ({
  metadata: { name, labels: { 'app.kubernetes.io/name': name, 'app.kubernetes.io/version': release }, ...more },
});
const servers = (release: string): ApiObject => labelled('netplug-typha', release);
const pod = (release: string, more: object = {}): ApiObject => ({
  ...labelled('netplug-node', release, { creationTimestamp: '2026-11-29T11:59:00Z' }),
  ...more,
});
/** The DaemonSet of the agent on three nodes. */
const agents = (updated: number, generation = 1): ApiObject => ({
  ...labelled('netplug-node', 'v3.27.0', { generation }),
  kind: 'DaemonSet',
  spec: {},
  status: { observedGeneration: 1, desiredNumberScheduled: 3, updatedNumberScheduled: updated, numberAvailable: 2 },
});
const hold = (set: ApiObject | undefined, ...pods: readonly ApiObject[]): string | undefined =>
  holdOfServers({ agents: set, pods }, { release: 'v3.27.0', now: NOW });

describe('the order of servers and agents', () => {
  const last = (running: string): readonly string[] =>
    orderFanOut(STAGES, servers(running), 'v3.27.0')
      .map(({ stage }) => stage)
      .slice(-2);

  it('has servers first to a newer release, and last back to an older one', () => {
    expect(last('v3.26.4')).toEqual(['typha', 'nodes']);
    expect(last('v3.27.0')).toEqual(['typha', 'nodes']);
    expect(last('v3.28.0')).toEqual(['nodes', 'typha']);
  });
});

describe('running servers', () => {
  it('are changed while every agent has its last change, also where one is down', () => {
    expect(hold(agents(3), pod('v3.27.0'))).toBeUndefined();
    expect(hold(undefined)).toBeUndefined();
  });

  it('wait while agents are being replaced, and for a change that is not yet observed', () => {
    expect(hold(agents(1), pod('v3.27.0'))).toBe('waits until netplug-node is rolled out');
    expect(hold(agents(3, 2), pod('v3.27.0'))).toBe('waits until netplug-node is rolled out');
  });

  it('do not wait for a roll-out that has stopped, which the change may repair', () => {
    const stuck = pod('v3.27.0', {
      metadata: { ...pod('v3.27.0').metadata, creationTimestamp: '2026-11-29T11:00:00Z' },
      spec: { nodeName: 'n1' },
      status: { phase: 'Pending' },
    });
    expect(hold(agents(1), stuck)).toBeUndefined();
  });

  it('wait for agents that are two minor releases behind, such as those that are held', () => {
    expect(hold(agents(3), pod('v3.27.0'), pod('v3.26.9'))).toBeUndefined();
    expect(hold(agents(3), pod('v3.28.1'))).toBeUndefined();
    expect(hold(agents(3), pod('v3.27.0'), pod('v3.25.4'))).toMatch(
      /^waits for agents of v3\.25\.4, .* netplug\.io\/hold-agents is set, when their pods are deleted$/,
    );
    expect(hold(agents(3), pod('v4.27.0'))).toContain('waits for agents of v4.27.0');
  });
});
