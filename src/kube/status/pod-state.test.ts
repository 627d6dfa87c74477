import { expect, it } from 'vitest';
import type { ApiObject } from '../objects.ts';
import { isStuck, isWithoutImage, podState } from './pod-state.ts';

const podOf = (status: object): ApiObject => ({
  metadata: { name: 'a', namespace: 'b', labels: { 'app.kubernetes.io/name': 'c' } },
  spec: { nodeName: 'n', containers: [{ image: 'i:1' }] },
  status,
});
const container = (state: object, more: object = {}): object => ({ name: 'agent', ready: false, state, ...more });

it('reads a ready pod, with its restarts and addresses', () => {
  const lastState = { terminated: { exitCode: 0, finishedAt: '2026-01-01T00:00:00Z' } };
  const status = {
    phase: 'Running',
    podIP: '10.0.0.1',
    conditions: [{ type: 'Ready', status: 'True' }],
    containerStatuses: [container({ running: {} }, { ready: true, restartCount: 2, lastState })],
  };
  expect(podState(podOf(status))).toEqual({
    name: 'a',
    namespace: 'b',
    component: 'c',
    node: 'n',
    phase: 'ready',
    addresses: ['10.0.0.1'],
    images: ['i:1'],
    readyContainers: 1,
    restarts: 2,
    restartedAt: '2026-01-01T00:00:00Z',
  });
});

it('says why a pod is not ready, by what the user can act on', () => {
  const reasonOf = (status: object): string | undefined => podState(podOf(status)).reason;
  expect(reasonOf({})).toBe('has not started');
  const unscheduled = [{ type: 'PodScheduled', status: 'False', message: 'no memory' }];
  expect(reasonOf({ conditions: unscheduled })).toBe('not scheduled: no memory');
  expect(reasonOf({ phase: 'Failed', reason: 'Evicted', message: 'out of disk' })).toBe('out of disk');
  expect(reasonOf({ containerStatuses: [container({ running: {} })] })).toBe('container agent is not ready');
  const pulls = podState(podOf({ containerStatuses: [container({ waiting: { reason: 'ImagePullBackOff' } })] }));
  expect(pulls.reason).toBe('container agent waits: ImagePullBackOff');
  expect([isStuck(pulls), isWithoutImage(pulls)]).toEqual([true, true]);
  const starts = podState(podOf({ containerStatuses: [container({ waiting: { reason: 'PodInitializing' } })] }));
  expect(starts).toMatchObject({ waiting: undefined, reason: 'has not started' });
});

it('keeps all that a failed container has printed at last, and one line of it as the reason', () => {
  const terminated = { exitCode: 3, message: 'started\nCannot begin\n  hint: wait\n' };
  expect(podState(podOf({ phase: 'Failed', containerStatuses: [container({ terminated })] }))).toMatchObject({
    phase: 'failed',
    exitCode: 3,
    output: 'started\nCannot begin\n  hint: wait',
    reason: 'container agent has failed (Cannot begin; hint: wait)',
  });
});

it('takes no pod for ready with a container that is not, although its condition still says so', () => {
  const conditions = [{ type: 'Ready', status: 'True' }];
  const state = podState(podOf({ phase: 'Running', conditions, containerStatuses: [container({ running: {} })] }));
  expect(state).toMatchObject({ phase: 'running', reason: 'container agent is not ready' });
});

it('has the message of a container that has succeeded, and only of that', () => {
  const read = (phase: string, exitCode: number): unknown =>
    podState(podOf({ phase, containerStatuses: [container({ terminated: { exitCode, message: 'left behind\n' } })] }));
  expect(read('Succeeded', 0)).toMatchObject({ message: 'left behind', output: undefined });
  expect(read('Failed', 1)).toMatchObject({ message: undefined, output: 'left behind' });
});
