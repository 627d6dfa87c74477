// What a stored policy with a mistake means to the agent.
import { describe, expect, it } from 'vitest';
import type { AnyResource, ResourceKind } from '../model/kinds.ts';
import type { Decoded } from './follow.ts';
import { inNamespace } from '../policy/resolve-selector.ts';
import { PolicyState } from '../policy/policy-state.ts';
import type { ResolvedPolicy } from '../policy/resolved-policy.ts';
import { resourceRecord } from './kv/records.ts';
import { Keys } from './kv/keys.ts';
import { seenBy } from './orch/resource-objects.ts';

const keys = new Keys();

function follow(kind: ResourceKind, spec: object): Decoded<AnyResource>[] {
  const namespace = kind === 'NetworkPolicy' ? { namespace: 'shop' } : {};
  const metadata = { name: 'a', uid: 'u', resourceVersion: '7', ...namespace };
  const object = { apiVersion: 'netplug.io/v3', kind, metadata, spec };
  const key = Buffer.from(keys.resource({ kind, name: 'a', ...namespace }));
  // The fields that readers use.
  const kv = { key, value: Buffer.from(JSON.stringify(object)), modRevision: 7n } as never;
  return [resourceRecord({ keys, kind, query: 0 }, kv, true), seenBy(object as never, kind)];
}

const BAD = { nets: ['10.0.0.0/33'] };

describe.each(['NetworkPolicy', 'GlobalNetworkPolicy', 'Profile'] as const)('a stored %s', (kind) => {
  it('keeps its readable rules with their numbers, and says what cannot be read', () => {
    const ingress = [
      { action: 'Allow', source: BAD },
      {
        action: 'Deny',
        protocol: 'TCP',
        source: { ...BAD, ports: [80] },
        metadata: { annotations: { 'netplug/rule': '3' } },
      },
      { action: 'deny' },
      { action: 'Allow', protocol: 'UDP' },
    ];
    for (const record of follow(kind, { ingress })) {
      expect(record).toMatchObject({
        problem: expect.stringContaining('spec.ingress[0].source.nets'),
        value: {
          spec: {
            ingress: [
              {
                action: 'Deny',
                protocol: 'TCP',
                source: { ports: [80] },
                metadata: { annotations: { 'netplug/rule': '1' } },
              },
              { action: 'Allow', protocol: 'UDP' },
            ],
          },
        },
      });
      expect(record).not.toHaveProperty('value.spec.ingress[0].source.nets');
    }
  });
});

const policyOf = (record: Decoded<AnyResource>): ResolvedPolicy | undefined => {
  const state = new PolicyState();
  const which = { kind: 'NetworkPolicy', namespace: 'shop', name: 'a' } as const;
  state.apply([{ kind: 'resource', which, ...record }]);
  expect(state.problems.get('NetworkPolicy shop/a')?.join()).toContain('Cannot understand');
  return state.tiers[0]?.policies[0];
};

describe('a stored policy with a mistake, as it is enforced,', () => {
  const typo = { action: 'Allow', source: { selector: 'x = 1' } };

  it.each([
    ['in a rule', { ingress: [typo] }, { ingress: [] }],
    ['elsewhere', { order: 'first' }, { ingress: [] }],
  ])('stays staged with a mistake %s', (_, spec, rules) => {
    for (const record of follow('NetworkPolicy', { staged: true, ...spec }))
      expect(policyOf(record)).toMatchObject({ isStaged: true, rules });
  });

  it('isolates in the directions of its rules as written, with the rules that can be read', () => {
    const spec = { selector: "app == 'x'", ingress: [typo], egress: [typo, { action: 'Allow', protocol: 'UDP' }] };
    for (const record of follow('NetworkPolicy', spec))
      expect(policyOf(record)).toMatchObject({
        isStaged: false,
        rules: { ingress: [], egress: [{ action: 'Allow', protocol: 17, index: 1 }] },
      });
  });

  it.each([{ selector: 'app ==' }, { selector: 7 }, { serviceAccountSelector: '(', selector: "app == 'x'" }])(
    'isolates its namespace with its denials in their place when it has %o',
    (unreadable) => {
      const rules = [{ action: 'Allow' }, { action: 'Deny', protocol: 'TCP' }, { action: 'Deny', source: BAD }];
      for (const record of follow('NetworkPolicy', { ...unreadable, order: 3, types: ['Ingress'], ingress: rules })) {
        const isolating = policyOf(record);
        expect(isolating).toMatchObject({ isStaged: false, rules: { ingress: [{ index: 1 }, { index: 2 }] } });
        expect(isolating?.rules).not.toHaveProperty('egress');
        expect(isolating?.appliesTo).toEqual(inNamespace('shop'));
        expect(record).toMatchObject({ value: { spec: { order: 3 } } });
      }
    },
  );

  it('stays staged and decides nothing with an unreadable selector', () => {
    for (const record of follow('NetworkPolicy', { staged: true, selector: 'app ==', ingress: [{ action: 'Deny' }] }))
      expect(policyOf(record)).toMatchObject({ isStaged: true, rules: { ingress: [] } });
  });

  it('isolates its namespace when more than rules and selectors cannot be read', () => {
    for (const record of follow('NetworkPolicy', { order: 'first' })) {
      expect(record.value).toBeUndefined();
      expect(policyOf(record)).toMatchObject({ isStaged: false, rules: { ingress: [], egress: [] } });
    }
  });
});
