import { expect, it } from 'vitest';
import { decodeDigests, encodeDigests } from '../../base/image-digests.ts';
import { imageNames, registryIn } from './names.ts';
import { releaseIn } from '../../model/image-release.ts';
import { flatOf, structuredOf } from '../../kube/objects/structured.ts';

const NODE = `sha256:${'a'.repeat(64)}`;
const TEXT = `netplug-node=${NODE}`;

it('names images by tag and digest, in a mirror as well, of which release and registry are read', () => {
  const digests = decodeDigests(TEXT);
  const { node, tools } = imageNames('v3.27.0', 'mirror.example:5000/net/', digests);
  expect({ node, tools }).toEqual({
    node: `mirror.example:5000/net/netplug-node:v3.27.0@${NODE}`,
    tools: 'mirror.example:5000/net/netplug:v3.27.0',
  });
  expect(releaseIn(node)).toBe('v3.27.0');
  expect(registryIn(node)).toBe('mirror.example:5000/net');
  expect(imageNames('v3.27.0').node).toBe('netplug.io/netplug-node:v3.27.0');
  const pod = { spec: { containers: [{ name: 'agent', image: node }] } };
  expect(structuredOf(pod)).toEqual({
    spec: {
      containers: [
        {
          name: 'agent',
          image: { registry: 'mirror.example:5000/net', name: 'netplug-node', tag: 'v3.27.0', digest: NODE },
        },
      ],
    },
  });
  expect(flatOf(structuredOf(pod))).toEqual(pod);
});

it('takes only whole digests', () => {
  expect(encodeDigests(decodeDigests(TEXT)!)).toBe(TEXT);
  expect(decodeDigests('')?.size).toBe(0);
  for (const text of ['netplug', 'netplug=sha256:12', `netplug=${NODE},`, `a b=${NODE}`])
    expect(decodeDigests(text)).toBeUndefined();
});
