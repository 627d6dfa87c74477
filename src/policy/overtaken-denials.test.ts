import { describe, expect, it } from 'vitest';
import { decodeResource } from '../model/decode-resource.ts';
import { overtakenDenials } from './overtaken-denials.ts';
import { type OrderedPolicy, resolveGlobalPolicy, resolveNetworkPolicy } from './resolve-policy.ts';

const OPEN = { order: -1e9, ingress: [{ action: 'Allow' }], egress: [{ action: 'Allow' }] };
const DENY = {
  order: 0,
  selector: 'netplug/namespace == "dev"',
  types: ['Ingress', 'Egress'],
  ingress: [{ action: 'Deny' }],
  egress: [{ action: 'Deny' }],
};

function resolved(kind: 'NetworkPolicy' | 'GlobalNetworkPolicy', spec: object): OrderedPolicy {
  const metadata = kind === 'NetworkPolicy' ? { name: 'mine', namespace: 'dev' } : { name: 'admin' };
  const read = decodeResource({ apiVersion: 'netplug.io/v3', kind, metadata, spec });
  if (!('resource' in read)) throw new Error(JSON.stringify(read));
  if (read.resource.kind === 'NetworkPolicy') return resolveNetworkPolicy(read.resource);
  const policy = read.resource.kind === 'GlobalNetworkPolicy' ? resolveGlobalPolicy(read.resource) : undefined;
  if (policy === undefined || !('policy' in policy)) throw new Error('it is unusable');
  return policy;
}

function directions(own: object, global: object): readonly string[] {
  const policies = [
    resolved('NetworkPolicy', { ...OPEN, ...own }),
    resolved('GlobalNetworkPolicy', { ...DENY, ...global }),
  ];
  return overtakenDenials(policies).map(({ policy, denial, direction }) => `${policy} ${denial} ${direction}`);
}

describe('a policy of a namespace', () => {
  it('overtakes a global denial in each direction that it opens before it', () => {
    const both = ['ingress', 'egress'].map((each) => `NetworkPolicy dev/mine GlobalNetworkPolicy admin ${each}`);
    expect(directions({}, {})).toEqual(both);
    expect(directions({ egress: [{ action: 'Deny' }] }, { order: undefined })).toEqual([both[0]]);
    expect(directions({ ingress: [{ action: 'Pass' }], egress: undefined }, {})).toEqual([both[0]]);
  });

  it.each([
    ['comes later', { order: 1 }, {}],
    ['has the same order, because the global policy comes first then', { order: 0 }, {}],
    ['has no order', { order: undefined }, {}],
    ['only denies', { ingress: [{ action: 'Deny' }], egress: undefined }, {}],
    ['is staged', { staged: true }, {}],
    ['is before one that is staged', {}, { staged: true }],
    ['is before one of another namespace', {}, { selector: 'netplug/namespace == "shop"' }],
    ['is before one that only allows', {}, { ingress: [{ action: 'Allow' }], egress: [{ action: 'Allow' }] }],
  ])('overtakes nothing when it %s', (_when, own, global) => {
    expect(directions(own, global)).toEqual([]);
  });
});
