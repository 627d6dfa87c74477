import { expect, it } from 'vitest';
import { memoryNode } from '../../test/support/memory-node.ts';
import type { Attachment } from '../model/names.ts';
import { noIsolation, type PodIsolation } from './pod-isolation.ts';

it('removes the policies of every attachment of its network that the runtime does not list', async () => {
  const node = await memoryNode();
  const attachments: Attachment[] = [
    { network: 'net', containerId: 'kept', ifName: 'eth0' },
    { network: 'net', containerId: 'removed', ifName: 'eth0' },
    { network: 'other', containerId: 'removed', ifName: 'eth0' },
  ];
  const collected: Attachment[] = [];
  const isolation: PodIsolation = {
    ...noIsolation('none'),
    collect: async (isRemoved) => {
      collected.push(...attachments.filter(isRemoved));
      return Promise.resolve(true);
    },
  };
  const conf = {
    name: 'net',
    cniVersion: '1.1.0',
    'cni.dev/valid-attachments': [{ containerID: 'kept', ifname: 'eth0' }],
  };
  expect(await node.call('GC', { conf, isolation })).toMatchObject({ status: 0 });
  expect(collected).toEqual([attachments[1]]);
});
