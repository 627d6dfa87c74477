import { describe, expect, it } from 'vitest';
import { memoryNode, type MemoryNode, NETNS } from '../../test/support/memory-node.ts';
import { openMemoryStore } from '../datastore/memory/memory-store.ts';
import { formatAddress } from '../net/address.ts';

const never = new AbortController().signal;

const sandboxOf = (uid: string, container: string, more = ''): { readonly env: Record<string, string> } => ({
  env: {
    CNI_CONTAINERID: container,
    CNI_NETNS: `${NETNS}-${container}`,
    CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=${uid}${more}`,
  },
});

async function startNode(): Promise<MemoryNode> {
  const node = await memoryNode();
  for (const container of ['c1', 'c2', 'c3']) node.kernel.addNetns(`${NETNS}-${container}`);
  return node;
}

/** Returns the recorded endpoints as UID, container and addresses. */
async function recorded(node: MemoryNode): Promise<readonly unknown[]> {
  const { endpoints } = await openMemoryStore(node.database).listEndpoints(undefined, never);
  return endpoints.map(({ value: { metadata, spec } }) => [
    metadata.namespace,
    spec.pod,
    spec.podUID,
    spec.containerID,
    spec.ipNetworks.length,
  ]);
}

async function ok(node: MemoryNode, verb: string, sandbox: ReturnType<typeof sandboxOf>): Promise<void> {
  expect(await node.call(verb, sandbox)).toMatchObject({ status: 0 });
}

const FIRST = ['shop', 'web', 'u1', 'c1', 1];
const NEXT = ['shop', 'web', 'u2', 'c2', 1];

describe('the record of a pod that was deleted by force and runs on', () => {
  it.each([
    ['before', ['c1', 'c2']],
    ['after', ['c2', 'c1']],
  ])('stays beside that of the next pod of the name until its own DEL, %s that of the next', async (_, order) => {
    const node = await startNode();
    const sandboxes = { c1: sandboxOf('u1', 'c1'), c2: sandboxOf('u2', 'c2') };
    await ok(node, 'ADD', sandboxes.c1);
    await ok(node, 'ADD', sandboxes.c2);
    await ok(node, 'ADD', sandboxes.c2);
    expect((await recorded(node)).toSorted()).toEqual([FIRST, NEXT]);
    for (const container of order) {
      await ok(node, 'DEL', container === 'c1' ? sandboxes.c1 : sandboxes.c2);
      const left = container === order[0] ? [container === 'c1' ? NEXT : FIRST] : [];
      expect(await recorded(node)).toEqual(left);
    }
  });

  it('goes with a GC that does not list its attachment', async () => {
    const node = await startNode();
    await ok(node, 'ADD', sandboxOf('u1', 'c1'));
    await ok(node, 'ADD', sandboxOf('u2', 'c2'));
    node.kernel.endNetns(`${NETNS}-c1`);
    const valid = [{ containerID: 'c2', ifname: 'eth0' }];
    expect(await node.call('GC', { conf: { 'cni.dev/valid-attachments': valid } })).toMatchObject({ status: 0 });
    expect(await recorded(node)).toEqual([NEXT]);
  });

  it.each([
    ['has ended', sandboxOf('u2', 'c2'), true],
    ['is the pod before, in another sandbox', sandboxOf('u1', 'c2'), false],
    ['has given its address to the next pod', undefined, true],
  ])('does not stay when it %s', async (_, next, isEnded) => {
    const node = await startNode();
    await ok(node, 'ADD', sandboxOf('u1', 'c1'));
    const [living] = await node.kernel.listPodAddresses();
    expect(living).toBeDefined();
    if (isEnded && next !== undefined) await ok(node, 'DEL', sandboxOf('u1', 'c1'));
    if (next === undefined) node.kernel.removeNetns(`${NETNS}-c1`);
    await ok(node, 'ADD', next ?? sandboxOf('u2', 'c2', `;IP=${formatAddress(living!.address)}`));
    expect(await recorded(node)).toHaveLength(1);
  });
});
