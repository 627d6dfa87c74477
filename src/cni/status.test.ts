import { expect, it } from 'vitest';
import { memoryNode } from '../../test/support/memory-node.ts';
import { NetplugError } from '../base/errors.ts';
import { noIsolation, type PodIsolation } from './pod-isolation.ts';

const WITH_POLICY = { policy: { type: 'orch' }, orch: { orchconfig: '/etc/netplug/kubeconfig' } };
const without: PodIsolation = {
  ...noIsolation('none'),
  findObstacle: async () => Promise.resolve('no controllers run'),
};

it('is an error where the network asks for policies that no pod has', async () => {
  const node = await memoryNode();
  const asked = await node.call('STATUS', { conf: WITH_POLICY, isolation: without });
  expect(asked.status).not.toBe(0);
  expect(JSON.parse(asked.stdout)).toMatchObject({
    code: 50,
    msg: 'Cannot serve ADD now: policy.type is "orch", and no controllers run',
    details: expect.stringContaining('Run netplug-orch-controllers'),
  });
  expect(await node.call('STATUS', { isolation: without })).toMatchObject({ status: 0, stdout: '' });
  expect(await node.call('STATUS', { conf: WITH_POLICY })).toMatchObject({ status: 0, stdout: '' });
  expect(await node.call('ADD', { isolation: without })).toMatchObject({ status: 0 });
});

it('is an error while the datastore does not say whether pods have policies', async () => {
  const node = await memoryNode();
  const findObstacle = async (): Promise<undefined> =>
    Promise.reject(new NetplugError('store/unavailable', 'etcd does not respond'));
  const { stdout } = await node.call('STATUS', { conf: WITH_POLICY, isolation: { ...without, findObstacle } });
  expect(JSON.parse(stdout)).toMatchObject({ code: 50, msg: 'Cannot serve ADD now: etcd does not respond' });
});
