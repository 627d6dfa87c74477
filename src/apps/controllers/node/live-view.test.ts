import { expect, it } from 'vitest';
import { isHeldBy } from '../../../ipam/garbage/pod-presence.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import { presenceOf } from './live-view.ts';

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
