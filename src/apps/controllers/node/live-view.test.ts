import { expect, it } from 'vitest';
import { nodeName } from '../../../../test/support/fixtures.ts';
import { isHeldBy } from '../../../ipam/garbage/pod-presence.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { ControllerPorts } from '../controller.ts';
import { liveView, presenceOf } from './live-view.ts';

function holds(pod: Partial<ApiObject['metadata']>, podUid: string): boolean {
  const metadata = { name: 'web', namespace: 'shop', ...pod };
  return isHeldBy(presenceOf({ metadata, spec: { nodeName: 'n1' }, status: {} }), { podUid, node: 'n1' });
}

it('knows a pod by its uid, and a static pod by its name, whichever mirror pod stands for it', () => {
  expect(holds({ uid: 'uid-1' }, 'uid-1')).toBe(true);
  expect(holds({ uid: 'uid-2' }, 'uid-1')).toBe(false);
  const annotations = { 'kubernetes.io/config.mirror': 'hash' };
  for (const recorded of ['uid-1', 'uid-2', 'hash']) expect(holds({ uid: 'uid-2', annotations }, recorded)).toBe(true);
});

it.each([
  ['present', 'a node that reports', { ready: 'True', taints: [] }],
  ['present', 'a node that is silent', { ready: 'Unknown', taints: [{ key: 'node.kubernetes.io/unreachable' }] }],
  ['present', 'a tainted node that reports', { ready: 'True', taints: [{ key: 'node.kubernetes.io/out-of-service' }] }],
  [
    'out-of-service',
    'a tainted node that is silent',
    { ready: 'Unknown', taints: [{ key: 'node.kubernetes.io/out-of-service' }] },
  ],
  ['gone', 'a node that the API does not have', undefined],
] as const)('says "%s" of %s', async (standing, _, node) => {
  const value = {
    metadata: { name: 'n1' },
    spec: { taints: node?.taints },
    status: { conditions: [{ type: 'Ready', status: node?.ready }] },
  };
  const get = async (): Promise<object> =>
    Promise.resolve(node === undefined ? { outcome: 'not-found' } : { outcome: 'ok', value });
  // The one part that it asks.
  const ports = {
    api: { get },
    store: {},
    confirmCluster: async () => Promise.resolve(),
  } as unknown as ControllerPorts;
  const never = new AbortController().signal;
  expect(await liveView(ports, "orchestrator's").standingOf(nodeName('n1'), never)).toBe(standing);
});
