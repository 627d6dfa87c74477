import { describe, expect, it } from 'vitest';
import { nodeName } from '../../../test/support/fixtures.ts';
import { attachmentOf } from '../../../test/support/ipam-bench.ts';
import type { Allocation } from '../../model/ip-block.ts';
import { handleOf } from '../../model/names.ts';
import { tunnelAttachment } from '../../model/tunnel-attachment.ts';
import { type Fate, fateOf, type HolderFacts } from './fate.ts';

const attachment = attachmentOf('c1');
const HELD: Allocation = {
  id: 'a',
  handle: handleOf(attachment),
  node: nodeName('n1'),
  ...attachment,
  namespace: 'shop',
  pod: 'db-0',
  podUid: 'uid-1',
  at: '2026-01-01T00:00:00Z',
  chosenBy: 'pod-annotation',
};
const { podUid: _, ...unnamed } = HELD;
const tunnel = tunnelAttachment(nodeName('n1'), 'vxlan.netplug');
const HOLDERS = {
  'an address that was asked for': HELD,
  'an address that the runtime asked for': { ...HELD, chosenBy: 'request' },
  'an address of a pod of unknown UID': unnamed,
  'any address': { ...HELD, chosenBy: 'node-selector' },
  'an address of a pool of the network': { ...HELD, chosenBy: 'netconf' },
  'an address that its node found in use': { ...HELD, chosenBy: 'living-link' },
  'an address of a static pod': { ...HELD, podUid: '0123456789abcdef0123456789abcdef' },
  'an address of a tunnel': { ...HELD, ...tunnel, handle: handleOf(tunnel) },
} as const satisfies Readonly<Record<string, Allocation>>;

const podOf = (uid: string, more: Partial<HolderFacts['pod']> = {}): HolderFacts['pod'] => ({
  uids: [uid],
  node: 'n1',
  isFinished: false,
  ...more,
});
const PODS = {
  'the pod exists': podOf('uid-1'),
  'the pod has finished': podOf('uid-1', { isFinished: true }),
  'no pod has the name': undefined,
  'another pod has the name': podOf('uid-2', { node: 'n2' }),
  'another pod has the name, without a node': podOf('uid-2', { node: '' }),
} as const satisfies Readonly<Record<string, HolderFacts['pod']>>;

describe('the fate of a held address', () => {
  it.each<[keyof typeof HOLDERS, keyof typeof PODS, HolderFacts['standing'], Fate]>([
    // Both must be said: that the pod is gone, and that the node is out of service.
    ['an address that was asked for', 'the pod exists', 'present', 'kept'],
    ['an address that was asked for', 'the pod exists', 'out-of-service', 'kept'],
    ['an address that was asked for', 'no pod has the name', 'present', 'kept'],
    ['an address that was asked for', 'another pod has the name', 'present', 'kept'],
    ['an address that was asked for', 'no pod has the name', 'out-of-service', 'at-once'],
    ['an address that was asked for', 'another pod has the name', 'out-of-service', 'at-once'],
    ['an address that was asked for', 'another pod has the name, without a node', 'out-of-service', 'at-once'],
    ['an address that was asked for', 'the pod has finished', 'out-of-service', 'at-once'],
    ['an address that the runtime asked for', 'no pod has the name', 'out-of-service', 'at-once'],
    // That a Node was deleted does not say that nothing runs there.
    ['an address that was asked for', 'the pod exists', 'gone', 'kept'],
    ['an address that was asked for', 'no pod has the name', 'gone', 'after-grace'],
    ['an address that was asked for', 'no pod has the name', 'foreign', 'kept'],
    // A pod never moves: one of the name on another node is another one.
    ['an address of a pod of unknown UID', 'the pod exists', 'out-of-service', 'kept'],
    ['an address of a pod of unknown UID', 'another pod has the name', 'out-of-service', 'at-once'],
    // Any other address serves as well, so these wait.
    ['any address', 'no pod has the name', 'out-of-service', 'after-grace'],
    ['an address of a pool of the network', 'no pod has the name', 'out-of-service', 'after-grace'],
    ['an address that its node found in use', 'no pod has the name', 'out-of-service', 'after-grace'],
    // The API need not know a pod that a kubelet runs, and a node that exists changes its tunnels itself.
    ['an address of a static pod', 'no pod has the name', 'out-of-service', 'kept'],
    ['an address of a static pod', 'no pod has the name', 'gone', 'after-grace'],
    ['an address of a tunnel', 'no pod has the name', 'out-of-service', 'kept'],
    ['an address of a tunnel', 'no pod has the name', 'gone', 'after-grace'],
  ])('%s, where %s and the node is %s, is %s', (holder, pod, standing, fate) => {
    expect(fateOf(HOLDERS[holder], { standing, pod: PODS[pod] })).toBe(fate);
  });
});
