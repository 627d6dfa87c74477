import { describe, expect, it } from 'vitest';
import { nodeOf } from '../../test/support/fixtures.ts';
import type { Node } from './node.ts';
import { clusterVersions } from './cluster-versions.ts';

function nodeAt(name: string, netplugVersion?: string): Node {
  return { ...nodeOf(name), spec: netplugVersion === undefined ? {} : { netplugVersion } };
}

describe('the releases of a cluster', () => {
  it('are those of the agents and the one that is known, with the newest', () => {
    const nodes = [nodeAt('n2', 'v3.27.0'), nodeAt('n1', 'v3.27.0'), nodeAt('n3')];
    expect(clusterVersions(nodes, 'v3.27.0')).toEqual({
      newest: 'v3.27.0',
      agents: new Map([
        ['v3.27.0', ['n1', 'n2']],
        ['unknown', ['n3']],
      ]),
      skews: [],
    });
    expect(clusterVersions([], 'v3.27.0')).toEqual({ newest: 'v3.27.0', agents: new Map(), skews: [] });
  });

  it('are skewed where an agent is older than what else runs, each release in one sentence', () => {
    const many = Array.from({ length: 7 }, (_, index) => nodeAt(`m${String(index)}`, 'v3.9.1'));
    const { newest, skews } = clusterVersions([nodeAt('n1', 'v3.26.0'), ...many, nodeAt('n2')], 'v3.27.0');
    expect(newest).toBe('v3.27.0');
    expect(skews).toEqual([
      'the agents of nodes m0, m1, m2, m3, m4 and 2 more are of release v3.9.1, and v3.27.0 runs in the cluster',
      'the agent of node n1 is of release v3.26.0, and v3.27.0 runs in the cluster',
    ]);
  });

  it('are those of agents alone where nothing else is known, and nonsense is no release', () => {
    const { newest, skews } = clusterVersions(
      [nodeAt('n1', 'nonsense'), nodeAt('n2', 'v3.28.0'), nodeAt('n3', 'v3.27.9')],
      undefined,
    );
    expect(newest).toBe('v3.28.0');
    expect(skews).toEqual(['the agent of node n3 is of release v3.27.9, and v3.28.0 runs in the cluster']);
    expect(clusterVersions([nodeAt('n1')], undefined)).toMatchObject({ newest: undefined, skews: [] });
  });
});
