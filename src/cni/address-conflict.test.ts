import { describe, expect, it } from 'vitest';
import { memoryNode, NETNS } from '../../test/support/memory-node.ts';

const podOf = (name: string): Record<string, string> => ({
  CNI_CONTAINERID: `container-of-${name}`,
  CNI_NETNS: `${NETNS}-${name}`,
  CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${name}`,
});

describe('an ADD whose address another running pod uses', () => {
  it('fails, names both pods, and keeps the other pod and its route', async () => {
    const node = await memoryNode();
    for (const name of ['old', 'new']) node.kernel.addNetns(`${NETNS}-${name}`);
    const backup = node.database.backUp();
    expect((await node.call('ADD', { env: podOf('old') })).status).toBe(0);
    // The datastore loses the address and keeps the endpoint.
    const { endpoints } = node.database.state();
    node.database.restore({ ...backup, state: { ...backup.state, endpoints } });
    const before = await node.kernel.listPodAddresses();

    const answer = await node.call('ADD', { env: podOf('new') });
    expect(answer.status).toBe(1);
    const error = JSON.parse(answer.stdout) as { msg: string; details: string };
    expect(error.msg).toContain('pod "shop/new"');
    expect(error.msg).toContain('pod "shop/old"');
    expect(error.details).toContain('kernel/address-in-use');
    expect(await node.kernel.listPodAddresses()).toEqual(before);
  });

  it('takes over the link of an earlier sandbox of the same pod', async () => {
    const node = await memoryNode();
    for (const name of ['old', 'new']) node.kernel.addNetns(`${NETNS}-${name}`);
    expect((await node.call('ADD', { env: podOf('old') })).status).toBe(0);
    const successor = { ...podOf('new'), CNI_ARGS: podOf('old')['CNI_ARGS'] ?? '' };
    expect((await node.call('ADD', { env: successor })).status).toBe(0);
    const [living] = await node.kernel.listPodAddresses();
    expect(living?.owner.containerId).toBe('container-of-new');
  });
});
