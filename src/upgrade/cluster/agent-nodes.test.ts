import { expect, it } from 'vitest';
import { runsOn } from './agent-nodes.ts';
import type { NodeState } from '../../kube/status/node-state.ts';

type Place = Pick<NodeState, 'name' | 'labels' | 'taints'>;

const NODE: Place = { name: 'worker-1', labels: { zone: 'a', cores: '16' }, taints: [] };

function runs(podSpec: object, node: Partial<Place> = {}): boolean {
  return runsOn({ kind: 'DaemonSet', spec: { template: { spec: podSpec } } }, { ...NODE, ...node });
}

function runsWith(...nodeSelectorTerms: readonly object[]): boolean {
  const nodeAffinity = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } };
  return runs({ affinity: { nodeAffinity } });
}

it.each<[string, string, readonly string[], boolean]>([
  ['zone', 'In', ['a', 'b'], true],
  ['zone', 'In', ['b'], false],
  ['rack', 'In', ['b'], false],
  ['zone', 'NotIn', ['b'], true],
  ['zone', 'NotIn', ['a'], false],
  ['rack', 'NotIn', ['b'], true],
  ['zone', 'Exists', [], true],
  ['rack', 'Exists', [], false],
  ['rack', 'DoesNotExist', [], true],
  ['zone', 'DoesNotExist', [], false],
  ['cores', 'Gt', ['8'], true],
  ['cores', 'Gt', ['16'], false],
  ['cores', 'Lt', ['17'], true],
  ['cores', 'Lt', ['16'], false],
  ['zone', 'Gt', ['8'], false],
  ['rack', 'Lt', ['8'], false],
  ['kubernetes.io/os', 'In', ['linux'], true],
  ['zone', 'Unheard', ['a'], false],
])('an affinity for label "%s" %s %j lets an agent run: %j', (key, operator, values, expected) => {
  expect(runsWith({ matchExpressions: [{ key, operator, values }] })).toBe(expected);
});

it('one of several terms must match, with all of its expressions and fields', () => {
  const [inA, inB] = [['a'], ['b']].map((values) => ({ key: 'zone', operator: 'In', values }));
  const named = (name: string): object => ({ key: 'metadata.name', operator: 'In', values: [name] });
  expect(runsWith({ matchExpressions: [inB] }, { matchExpressions: [inA] })).toBe(true);
  expect(runsWith({ matchExpressions: [inA, inB] })).toBe(false);
  expect(runsWith({ matchExpressions: [inA], matchFields: [named('worker-1')] })).toBe(true);
  expect(runsWith({ matchExpressions: [inA], matchFields: [named('worker-2')] })).toBe(false);
  expect(runsWith({})).toBe(false);
});

it('a preferred affinity keeps an agent off no node', () => {
  const preference = { matchExpressions: [{ key: 'zone', operator: 'In', values: ['b'] }] };
  const preferred = [{ weight: 1, preference }];
  expect(runs({ affinity: { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: preferred } } })).toBe(
    true,
  );
});

it('selector and taints count besides', () => {
  expect(runs({ nodeSelector: { zone: 'b' } })).toBe(false);
  expect(runs({}, { taints: ['dedicated=db:NoSchedule'] })).toBe(false);
});
