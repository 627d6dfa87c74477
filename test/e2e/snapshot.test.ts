import { expect, it } from 'vitest';
import { type Json, startNode } from '../support/node.ts';

// Random bytes that were read while the snapshot was built would be those of every call.
it('standalone calls started from one snapshot assign different allocation ids', async () => {
  await using node = await startNode({ mode: 'standalone' });
  await node.seedPool('v4', '10.65.0.0/16');
  for (const containerId of ['a', 'b', 'c']) {
    const { path } = await node.pod();
    const { status } = await node.cni('ADD', { containerId, netns: path, conf: node.netconf() });
    expect(status).toBe(0);
  }
  const blocks = [...(await node.records('ipam/blocks/')).values()];
  const ids = blocks.flatMap((block: Json) => Object.values(block.slots).map(({ id }: Json) => id as unknown));
  expect(ids).toHaveLength(3);
  expect(new Set(ids).size).toBe(3);
  expect(ids).not.toContain(undefined);
});
