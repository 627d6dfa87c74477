import { expect, it } from 'vitest';
import { type Clock, virtualClock } from '../../base/clock.ts';
import type { WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import type { ToNetwork } from './network-channel.ts';
import { PodIsolator } from './pod-isolator.ts';

const open = new AbortController().signal;

function endpointOf(containerID: string): WorkloadEndpoint {
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name: 'a-orch-web-eth0', namespace: 'shop' },
    spec: {
      orchestrator: 'orch',
      node: 'a',
      network: 'n',
      containerID,
      endpoint: 'eth0',
      interfaceName: 'npl0',
      mac: '',
      ipNetworks: ['10.0.0.1/32'],
      profiles: [],
      ipam: 'netplug-ipam',
    },
  };
}

function isolatorOf(setting: 'on' | 'off' | 'auto', clock: Clock = virtualClock()): PodIsolator {
  return new PodIsolator({
    clock,
    setting,
    isOn: setting === 'on',
    offReason: 'it is off',
    findEndpointObstacle: async ({ metadata }) =>
      Promise.resolve(metadata.namespace === 'new' ? 'no profile' : undefined),
    withdraw: async () => Promise.resolve(),
    findObstacle: async () => Promise.resolve('no controllers'),
  });
}

it('switches policy on with the first pod that asks for it, unless the setting is "off"', async () => {
  const [auto, off] = [isolatorOf('auto'), isolatorOf('off')];
  expect([auto.isOn, off.isOn]).toEqual([false, false]);
  await Promise.all([auto.isolate(endpointOf('c'), open), off.isolate(endpointOf('c'), open)]);
  expect([auto.isOn, off.isOn]).toEqual([true, false]);
});

it('names what stands against all policies, unless the setting is "off"', async () => {
  expect(await isolatorOf('auto').findObstacle(open)).toBe('no controllers');
  expect(await isolatorOf('on').findObstacle(open)).toBe('no controllers');
  expect(await isolatorOf('off').findObstacle(open)).toBeUndefined();
});

it('switches policy on only when nothing stands against it', async () => {
  const auto = isolatorOf('auto');
  const early = { ...endpointOf('c'), metadata: { name: 'a-orch-web-eth0', namespace: 'new' } };
  expect(await auto.isolate(early, open)).toEqual({ state: 'not enforced', reason: 'no profile' });
  expect(auto.isOn).toBe(false);
  await auto.isolate(endpointOf('c'), open);
  expect(await auto.isolate(early, open)).toMatchObject({ state: 'closed' });
});

it('reports a pod as closed when the network process does not answer within the limit', async () => {
  const clock = virtualClock();
  const isolator = isolatorOf('on', clock);
  expect(await isolator.isolate(endpointOf('c'), open)).toEqual({
    state: 'closed',
    reason: 'the network process is down',
  });
  expect(clock.monotonic()).toBeGreaterThanOrEqual(5000);
  isolator.connect(() => undefined);
  expect(await isolator.isolate(endpointOf('c'), open)).toMatchObject({ reason: 'the network process is late' });
});

it('asks a new network process for all pods, and answers a call that waits since before', async () => {
  const isolator = isolatorOf('on');
  const pending = isolator.isolate(endpointOf('c'), open);
  isolator.disconnect();
  isolator.connect((message: ToNetwork) => {
    if (message.kind === 'isolate')
      isolator.receive({ kind: 'isolate', id: message.id, isolation: { state: 'in force' } });
  });
  expect(await pending).toEqual({ state: 'in force' });
});

it('passes the time of the ADD to a new process, and whether the ADD has ended', async () => {
  const clock = virtualClock();
  const isolator = isolatorOf('on', clock);
  const addedAt = new Date(clock.now()).toISOString();
  const passed: unknown[] = [];
  const record = (message: ToNetwork): void => void passed.push(message);
  isolator.connect(record);
  const pending = isolator.isolate(endpointOf('c'), open);
  isolator.disconnect();
  isolator.connect(record);
  await pending;
  await clock.sleep(60_000, open);
  isolator.connect(record);
  expect(passed).toMatchObject([
    { addedAt, isPast: false },
    { addedAt, isPast: false },
    { addedAt, isPast: true },
  ]);
});

it('forgets the pods that garbage collection has removed', async () => {
  const isolator = isolatorOf('on');
  const answer = (message: ToNetwork): void => {
    if (message.kind === 'isolate')
      isolator.receive({ kind: 'isolate', id: message.id, isolation: { state: 'in force' } });
    if (message.kind === 'release') isolator.receive({ kind: 'release', id: message.id, isReleased: true });
  };
  isolator.connect(answer);
  const other = endpointOf('kept');
  await isolator.isolate({ ...other, metadata: { ...other.metadata, name: 'a-orch-db-eth0' } }, open);
  await isolator.isolate(endpointOf('removed'), open);
  await isolator.collect(({ containerId }) => containerId === 'removed', open);
  const passed: unknown[] = [];
  isolator.connect((message) => void passed.push(message));
  expect(passed).toMatchObject([{ endpoint: { spec: { containerID: 'kept' } } }]);
});

it('does not pass a released pod to a new process, but keeps the newer sandbox of the same pod', async () => {
  const isolator = isolatorOf('on');
  isolator.connect((message) => {
    if (message.kind === 'release') isolator.receive({ kind: 'release', id: message.id, isReleased: true });
    if (message.kind === 'isolate')
      isolator.receive({ kind: 'isolate', id: message.id, isolation: { state: 'in force' } });
  });
  await isolator.isolate(endpointOf('old'), open);
  await isolator.isolate(endpointOf('new'), open);
  await isolator.release(endpointOf('old'), open);
  const passed: unknown[] = [];
  const record = (message: ToNetwork): void => void passed.push(message);
  isolator.connect(record);
  expect(passed).toMatchObject([{ endpoint: { spec: { containerID: 'new' } } }]);
  isolator.connect((message) => {
    if (message.kind === 'release') isolator.receive({ kind: 'release', id: message.id, isReleased: true });
  });
  await isolator.release(endpointOf('new'), open);
  isolator.connect(record);
  expect(passed).toHaveLength(1);
});

it('says whether a process removes a released pod: one that is late does, one that is down or knows no policies does not', async () => {
  const isolator = isolatorOf('on');
  expect(await isolator.release(endpointOf('a'), open)).toBe(false);
  isolator.connect(() => undefined);
  expect(await isolator.release(endpointOf('a'), open)).toBe(true);
  isolator.connect((message) => {
    if (message.kind === 'release') isolator.receive({ kind: 'release', id: message.id, isReleased: false });
  });
  expect(await isolator.release(endpointOf('a'), open)).toBe(false);
  expect(await isolator.collect(() => true, open)).toBe(true);
  isolator.disconnect();
  expect(await isolator.collect(() => true, open)).toBe(false);
});
