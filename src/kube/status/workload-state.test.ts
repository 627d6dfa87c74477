import { expect, it } from 'vitest';
import { workloadState } from './workload-state.ts';

const daemonSet = (status: object): object => ({
  kind: 'DaemonSet',
  metadata: { name: 'a', generation: 2 },
  spec: {},
  status: { observedGeneration: 2, ...status },
});
const deployment = (replicas: number, status: object): object => ({
  kind: 'Deployment',
  metadata: { name: 'a', generation: 1 },
  spec: { replicas },
  status: { observedGeneration: 1, ...status },
});
const lagOf = (object: object, pods: 'following' | 'kept' = 'following'): string | undefined =>
  workloadState(object, pods)?.lag;

it('says how far a workload is rolled out, after its controller has observed the last change', () => {
  const all = { desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 3 };
  expect(lagOf(daemonSet(all))).toBeUndefined();
  expect(lagOf(daemonSet({ ...all, observedGeneration: 1 }))).toMatch(/has not observed/);
  expect(lagOf(daemonSet({ ...all, updatedNumberScheduled: 1 }))).toBe('1 of 3 updated, 3 available');
  expect(lagOf(daemonSet({ ...all, updatedNumberScheduled: 1 }), 'kept')).toBeUndefined();
  expect(lagOf(deployment(2, { updatedReplicas: 2, availableReplicas: 1 }))).toBe('2 of 2 updated, 1 available');
});

it('knows how far a StatefulSet is rolled out, whose pods are replaced in their places', () => {
  const statefulSet = (status: object): object => ({
    ...deployment(3, { replicas: 3, ...status }),
    kind: 'StatefulSet',
  });
  expect(lagOf(statefulSet({ updatedReplicas: 3, availableReplicas: 3 }))).toBeUndefined();
  expect(lagOf(statefulSet({ updatedReplicas: 1, availableReplicas: 3 }))).toBe('1 of 3 updated, 3 available');
  expect(lagOf(statefulSet({ updatedReplicas: 3, availableReplicas: 2 }))).toBe('3 of 3 updated, 2 available');
});

it('finds a DaemonSet not ready that no node wants, and a Deployment ready that is scaled to none', () => {
  expect(lagOf(daemonSet({ desiredNumberScheduled: 0 }))).toBe('scheduled to no node');
  expect(lagOf(deployment(0, {}))).toBeUndefined();
});

it('has no state of an object without a status', () => {
  expect(workloadState({ kind: 'DaemonSet', metadata: {}, spec: {} }, 'following')).toBeUndefined();
});
