import { describe, expect, it } from 'vitest';
import { BIRD_SET } from '../../install/cluster/names.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { workloadStatus } from './workload-status.ts';

const NOW = Date.parse('2026-01-01T01:00:00Z');
const NAME = 'netplug-node';

const daemonSet = (status: object): ApiObject => ({
  kind: 'DaemonSet',
  metadata: { name: NAME, generation: 2 },
  spec: {},
  status,
});
const done = { observedGeneration: 2, desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 3 };
const pod = (node: string, status: object, creationTimestamp = '2026-01-01T00:59:00Z'): ApiObject => ({
  metadata: { name: `p-${node}`, labels: { 'app.kubernetes.io/name': NAME }, creationTimestamp },
  spec: { nodeName: node },
  status,
});
const waits = (reason: string): object => ({
  containerStatuses: [{ name: 'agent', ready: false, state: { waiting: { reason, message: 'why' } } }],
});
const READY = { conditions: [{ type: 'Ready', status: 'True' }] };

describe('the state of a workload', () => {
  it('is ready when every pod is updated and available, and the last change was observed', () => {
    expect(workloadStatus(NAME, { object: daemonSet(done), pods: [], now: NOW })).toMatchObject({
      component: { state: 'Ready', desired: 3, updated: 3, available: 3 },
      isServing: true,
      isInUse: true,
    });
    const object = daemonSet({ ...done, observedGeneration: 1 });
    expect(workloadStatus(NAME, { object, pods: [], now: NOW })).toMatchObject({
      component: { state: 'Progressing', message: expect.stringContaining('has not observed') as string },
      isInUse: false,
    });
    expect(workloadStatus(NAME, { object: daemonSet({}), pods: [], now: NOW })).toMatchObject({ isServing: false });
  });

  it('is ready while BIRD has pods of the template before, which are replaced only when they are deleted', () => {
    const object = daemonSet({ ...done, updatedNumberScheduled: 0 });
    expect(workloadStatus(NAME, { object, pods: [], now: NOW })).toMatchObject({ isInUse: false });
    expect(workloadStatus(BIRD_SET, { object, pods: [], now: NOW })).toMatchObject({
      component: { state: 'Ready' },
      isInUse: true,
    });
    const unavailable = daemonSet({ ...done, numberAvailable: 2 });
    expect(workloadStatus(BIRD_SET, { object: unavailable, pods: [], now: NOW })).toMatchObject({ isInUse: false });
  });

  it('is not ready while no node wants its pods, and says so', () => {
    const none = { ...done, desiredNumberScheduled: 0, updatedNumberScheduled: 0, numberAvailable: 0 };
    expect(workloadStatus(NAME, { object: daemonSet(none), pods: [], now: NOW })).toMatchObject({
      component: { state: 'Progressing', message: 'scheduled to no node' },
      isServing: false,
      isInUse: false,
    });
  });

  it('names the nodes that fail first, with the reason of the kubelet', () => {
    const object = daemonSet({ ...done, updatedNumberScheduled: 1, numberAvailable: 2 });
    const pods = [
      pod('a', { containerStatuses: [{ name: 'agent', ready: false, state: { running: {} } }] }),
      pod('b', waits('CrashLoopBackOff')),
      pod('c', READY),
    ];
    expect(workloadStatus(NAME, { object, pods, now: NOW })).toMatchObject({
      component: {
        state: 'Failing',
        message:
          '1 of 3 updated, 2 available; node "b": container agent waits: CrashLoopBackOff (why); node "a": container agent is not ready',
      },
      isServing: false,
    });
  });

  it('shows what a failed container has said at last', () => {
    const object = daemonSet({ ...done, numberAvailable: 1 });
    const message =
      'INFO started\nCannot write "/opt/cni/bin/netplug": the file system is read-only\n  hint: Mount it read-write\n  code: install/failed\n';
    const terminated = { exitCode: 74, message };
    const initial = (state: object): object => ({
      initContainerStatuses: [{ name: 'install', ready: false, ...state }],
    });
    const waiting = { reason: 'CrashLoopBackOff', message: 'back-off 10s' };
    const pods = [
      pod('a', initial({ state: { waiting }, lastState: { terminated } })),
      pod('b', initial({ state: { terminated } })),
      pod('c', initial({ state: { waiting }, lastState: { terminated: { exitCode: 1 } } })),
    ];
    const said =
      'Cannot write "/opt/cni/bin/netplug": the file system is read-only; hint: Mount it read-write; code: install/failed';
    expect(workloadStatus(NAME, { object, pods, now: NOW }).component).toMatchObject({
      state: 'Failing',
      message: `3 of 3 updated, 1 available; node "a": container install waits: CrashLoopBackOff (${said}); node "c": container install waits: CrashLoopBackOff (back-off 10s); node "b": container install has failed (${said})`,
    });
  });

  it('is failing when a pod has not become ready for five minutes, without a reason', () => {
    const object = daemonSet({ ...done, numberAvailable: 2 });
    const since = (time: string) =>
      workloadStatus(NAME, { object, pods: [pod('a', {}, time)], now: NOW }).component.state;
    expect(since('2026-01-01T00:56:00Z')).toBe('Progressing');
    expect(since('2026-01-01T00:54:00Z')).toBe('Failing');
  });

  it('lets the next stage begin with one replica of a Deployment, whose other node may be down', () => {
    const object = {
      kind: 'Deployment',
      metadata: { name: 'c', generation: 1 },
      spec: { replicas: 2 },
      status: { observedGeneration: 1, updatedReplicas: 2, availableReplicas: 1 },
    };
    expect(workloadStatus('c', { object, pods: [], now: NOW })).toMatchObject({
      component: { state: 'Progressing' },
      isServing: true,
      isInUse: true,
    });
  });
});
