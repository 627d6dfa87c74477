import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nodeOf } from '../../../../test/support/fixtures.ts';
import type { Node } from '../../../model/node.ts';
import { isOfOrchestrator, withOrchestratorNode } from './plan-node.ts';

const labels = fc.dictionary(fc.constantFrom('zone', 'role', 'arch', 'own'), fc.constantFrom('a', 'b', ''));

function orchNode(of: Readonly<Record<string, string>>, uid = 'u1'): Node {
  const node = nodeOf('n1', of);
  return { ...node, metadata: { ...node.metadata, uid } };
}
const labelsOf = ({ metadata }: Node): Readonly<Record<string, string>> => metadata.labels ?? {};

describe("labels of the orchestrator's nodes", () => {
  it('are copied, follow its changes, and leave the labels of the user', () => {
    const first = withOrchestratorNode(nodeOf('n1', { role: 'gateway' }), orchNode({ zone: 'a', arch: 'arm' }), true);
    expect(labelsOf(first)).toEqual({ role: 'gateway', zone: 'a', arch: 'arm' });
    expect(isOfOrchestrator(first)).toBe(true);
    const byHand = {
      ...first,
      metadata: { ...first.metadata, labels: { ...labelsOf(first), arch: 'mine', zone: 'x' } },
    };
    const second = withOrchestratorNode(byHand, orchNode({ zone: 'b' }), true);
    expect(labelsOf(second)).toEqual({ role: 'gateway', zone: 'b', arch: 'mine' });
  });

  it('stay as they are while syncing is off, and are remembered', () => {
    const first = withOrchestratorNode(nodeOf('n1'), orchNode({ zone: 'a' }), true);
    expect(withOrchestratorNode(first, orchNode({ zone: 'b' }), false)).toBe(first);
    expect(labelsOf(withOrchestratorNode(first, orchNode({}), true))).toEqual({});
  });

  it('are not removed on the word of a broken annotation', () => {
    const node = nodeOf('n1', { zone: 'a' });
    const broken = { ...node, metadata: { ...node.metadata, annotations: { 'netplug/orch-node': '{' } } };
    expect(labelsOf(withOrchestratorNode(broken, orchNode({}), true))).toEqual({ zone: 'a' });
  });

  it('are the same after one step from every state, and the next step changes nothing', () => {
    fc.assert(
      fc.property(labels, labels, labels, (users, before, now) => {
        const once = withOrchestratorNode(nodeOf('n1', users), orchNode(before), true);
        const twice = withOrchestratorNode(once, orchNode(now), true);
        const kept = Object.entries(users).filter(([key]) => !(key in before) && !(key in now));
        expect(labelsOf(twice)).toEqual({ ...Object.fromEntries(kept), ...now });
        expect(withOrchestratorNode(twice, orchNode(now), true)).toBe(twice);
      }),
    );
  });
});
