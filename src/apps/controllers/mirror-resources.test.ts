import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ResourceRecord } from '../../datastore/follow.ts';
import { decodeFollowedResource } from '../../datastore/stored-resource.ts';
import { fromKubernetesPolicy } from '../../model/from-kubernetes/network-policy.ts';
import { fromNamespace, fromServiceAccount } from '../../model/from-kubernetes/profiles.ts';
import type { AnyResource } from '../../model/kinds.ts';
import { derivedOriginal } from '../../model/policy-names.ts';
import { resourceIdOf } from '../../model/resource-id.ts';
import { planCopy } from './mirror-resources.ts';
import type { ResourceWrite } from './resource-write.ts';

const word = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,60}[a-z0-9])?$/);
const longName = fc.oneof(word, fc.constantFrom('a'.repeat(253), 'web.v1', 'x.y.z'));
const labelKey = fc
  .oneof(
    fc.stringMatching(/^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/),
    fc.constantFrom(
      'a'.repeat(63),
      'example.org/tier',
      'kubernetes.io/metadata.name',
      '__proto__x',
      `x/${'y'.repeat(63)}`,
    ),
  )
  .filter((key) => !key.startsWith('__'));
const labelValue = fc.oneof(fc.constant(''), fc.stringMatching(/^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/));
const labels = fc.dictionary(labelKey, labelValue, { maxKeys: 4, noNullPrototype: true });
const selector = fc.record(
  {
    matchLabels: labels,
    matchExpressions: fc.array(
      fc.oneof(
        fc.record({
          key: labelKey,
          operator: fc.constantFrom('In', 'NotIn'),
          values: fc.array(labelValue, { minLength: 1, maxLength: 3 }),
        }),
        fc.record({ key: labelKey, operator: fc.constantFrom('Exists', 'DoesNotExist') }),
      ),
      { maxLength: 2 },
    ),
  },
  { requiredKeys: [] },
);
const port = fc.record(
  {
    protocol: fc.constantFrom('TCP', 'UDP', 'SCTP'),
    port: fc.oneof(fc.integer({ min: 1, max: 65_535 }), fc.constantFrom('http', 'web-1')),
  },
  { requiredKeys: [] },
);
const peer = fc.oneof(
  fc.record({ podSelector: selector }),
  fc.record({ namespaceSelector: selector }),
  fc.record({ podSelector: selector, namespaceSelector: selector }),
  fc.constantFrom({ ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16'] } }, { ipBlock: { cidr: 'fd00::1/64' } }),
  // What the API would not accept, or a newer one has.
  fc.constantFrom({}, { ipBlock: { cidr: 'ten' } }, { nodeSelector: {} }),
);
const ports = fc.array(port, { maxLength: 3 });
const peers = fc.array(peer, { maxLength: 3 });
const policy = fc.record({
  metadata: fc.record({ name: longName, namespace: word, labels }),
  spec: fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record(
        {
          podSelector: selector,
          policyTypes: fc.constantFrom(['Ingress'], ['Egress'], ['Ingress', 'Egress'], []),
          ingress: fc.array(fc.record({ from: peers, ports }, { requiredKeys: [] }), { maxLength: 2 }),
          egress: fc.array(fc.record({ to: peers, ports }, { requiredKeys: [] }), { maxLength: 2 }),
        },
        { requiredKeys: [] },
      ),
    },
    fc.constantFrom({ podSelector: 7 }, { policyTypes: ['Sideways'] }),
  ),
});
const namespace = fc.record({ metadata: fc.record({ name: word, labels }) });
const account = fc.record({ metadata: fc.record({ name: longName, namespace: word, labels }) });

/** Records that the orchestrator's side of a controller observes. */
const original: fc.Arbitrary<ResourceRecord> = fc.oneof(
  policy.map((object) => {
    const { value, problems } = fromKubernetesPolicy(object);
    const { name, namespace: of } = object.metadata;
    const which = { kind: 'NetworkPolicy', namespace: of, name: `knp.default.${name}` } as const;
    return recordOf(which, { value, problem: problems.length === 0 ? undefined : problems.join('; ') });
  }),
  namespace.map((object) => profileRecord(fromNamespace(object))),
  account.map((object) => profileRecord(fromServiceAccount(object))),
);

function recordOf(which: ResourceRecord['which'], more: Pick<ResourceRecord, 'value' | 'problem'>): ResourceRecord {
  return { kind: 'resource', query: 0, key: '', version: '', which, ...more };
}

function profileRecord(value: AnyResource): ResourceRecord {
  return recordOf(resourceIdOf(value), { value });
}

/** Writes a change, and returns the record as the datastore returns it; undefined when it was deleted. */
function written(change: ResourceWrite | undefined, version: string): ResourceRecord | undefined {
  if (change === undefined || change.kind === 'delete') return undefined;
  const which = resourceIdOf(change.resource);
  const stored = JSON.parse(JSON.stringify(change.resource)) as object;
  return { ...recordOf(which, decodeFollowedResource(which, stored)), version };
}

describe('a copy [auth-mirror]', () => {
  it('is created once, can be read back, and means what its original means', () => {
    fc.assert(
      fc.property(original, (each) => {
        const { changes } = planCopy(each, undefined);
        expect(changes.map(({ kind }) => kind)).toEqual(['create']);
        const copy = written(changes[0], '7');
        expect(copy?.problem).toBeUndefined();
        expect(planCopy(each, copy).changes).toEqual([]);
        const isolating = { types: ['Ingress', 'Egress'], ingress: [], egress: [] };
        const stored: unknown = copy?.value?.spec;
        expect(stored).toEqual({ ...(stored as object), ...JSON.parse(JSON.stringify(each.value?.spec ?? isolating)) });
        expect(planCopy(each, copy).problems).toEqual(each.problem === undefined ? [] : [each.problem]);
      }),
      { numRuns: 300 },
    );
  });

  it('is repaired by one update when it was changed, and deleted with its original', () => {
    fc.assert(
      fc.property(original, original, (each, other) => {
        fc.pre(each.which.kind === other.which.kind);
        const copy = written(planCopy(each, undefined).changes[0], '7');
        const { changes: repairs } = planCopy(other, copy);
        const repaired = repairs.length === 0 ? copy : written(repairs[0], '8');
        expect(
          planCopy({ ...other, which: each.which }, { ...repaired!, which: each.which }).changes.length,
        ).toBeLessThan(2);
        for (const repair of repairs)
          expect(repair).toMatchObject({ kind: 'update', resource: { metadata: { resourceVersion: '7' } } });
        expect(planCopy(undefined, copy).changes).toEqual([{ kind: 'delete', which: copy?.which, version: '7' }]);
      }),
    );
  });

  it('made by people, or unreadable, is reported and left alone', () => {
    fc.assert(
      fc.property(original, (each) => {
        const copy = written(planCopy(each, undefined).changes[0], '7');
        const { labels: _, ...metadata } = copy!.value!.metadata;
        const theirs = { ...copy!, value: { ...copy!.value!, metadata } as AnyResource };
        const unreadable = recordOf(each.which, { value: undefined, problem: 'no JSON' });
        for (const found of [theirs, unreadable]) {
          expect(planCopy(undefined, found)).toEqual({ changes: [] });
          const { changes, problems } = planCopy(each, found);
          expect(changes).toEqual([]);
          expect(problems?.at(-1)).toContain('is left as it is');
        }
      }),
    );
  });

  it('has no rules when they are too large for etcd, and then isolates what it selects', () => {
    const from = Array.from({ length: 20_000 }, (_, index) => {
      const net = `10.${String(index >> 8)}.${String(index & 255)}`;
      return { ipBlock: { cidr: `${net}.0/24`, except: [`${net}.1/32`] } };
    });
    const metadata = { name: 'large', namespace: 'ns' };
    const spec = { podSelector: { matchLabels: { app: 'web' } }, policyTypes: ['Ingress'], ingress: [{ from }] };
    const { value } = fromKubernetesPolicy({ metadata, spec });
    const { changes, problems } = planCopy(recordOf(resourceIdOf(value!), { value }), undefined);
    const copy = written(changes[0], '7');
    expect(copy?.value?.spec).toMatchObject({ selector: expect.stringContaining('app'), ingress: [], egress: [] });
    expect(problems).toEqual([expect.stringContaining('too large to be stored')]);
    expect(planCopy(recordOf(resourceIdOf(value!), { value }), copy).changes).toEqual([]);
  });

  it('is written again when a part of it cannot be read', () => {
    const { value } = fromKubernetesPolicy({ metadata: { name: 'a', namespace: 'ns' }, spec: { podSelector: {} } });
    const each = recordOf(resourceIdOf(value!), { value });
    const copy = { ...written(planCopy(each, undefined).changes[0], '7')!, problem: 'ingress[0] cannot be read' };
    expect(planCopy(each, copy).changes).toMatchObject([{ kind: 'update' }]);
  });

  it('names its original', () => {
    fc.assert(
      fc.property(policy, namespace, account, (one, two, three) => {
        const { name, namespace: of } = one.metadata;
        expect(derivedOriginal({ kind: 'NetworkPolicy', namespace: of, name: `knp.default.${name}` })).toEqual({
          from: 'NetworkPolicy',
          namespace: of,
          name,
        });
        const profile = (value: AnyResource) => derivedOriginal({ kind: 'Profile', name: value.metadata.name });
        expect(profile(fromNamespace(two))).toEqual({ from: 'Namespace', name: two.metadata.name });
        const { namespace: home, name: called } = three.metadata;
        expect(profile(fromServiceAccount(three))).toEqual({ from: 'ServiceAccount', namespace: home, name: called });
      }),
    );
    expect(derivedOriginal({ kind: 'Profile', name: 'team-a' })).toBeUndefined();
    expect(derivedOriginal({ kind: 'NetworkPolicy', name: 'web' })).toBeUndefined();
  });
});
