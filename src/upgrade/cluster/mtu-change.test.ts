import { expect, it } from 'vitest';
import { soundCluster, targetFor } from '../../../test/support/sound-cluster.ts';
import { mtuChange, mtuChangeText } from './mtu-change.ts';

const withMtu = (mtu: number) => ({ spec: { calicoNetwork: { mtu } } });

it.each([
  ['is none when the conflist keeps its MTU', soundCluster(withMtu(1400)), targetFor(withMtu(1400)), undefined],
  ['is none without an MTU', soundCluster(), targetFor(), undefined],
  ['has both sizes', soundCluster(withMtu(1500)), targetFor(withMtu(1400)), { from: 1500, to: 1400 }],
  ['has no old size where agents chose', soundCluster(), targetFor(withMtu(1400)), { from: undefined, to: 1400 }],
])('the change of the MTU %s', (_, snapshot, target, change) => {
  expect(mtuChange(snapshot, target)).toEqual(change);
});

it.each([
  [{ from: 1500, to: 1400 }, 'the upgrade lowers the MTU of pods from 1500 bytes to 1400 bytes; '],
  [{ from: 1400, to: 1500 }, 'the upgrade raises the MTU of pods from 1400 bytes to 1500 bytes; '],
  [{ from: undefined, to: 1400 }, 'the upgrade changes the MTU of pods from what each agent derives from'],
])('says that %j', (change, said) => {
  expect(mtuChangeText(change)).toContain(said);
});
