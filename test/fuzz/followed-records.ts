// Records as stores yield them, of every form in which one can cross to an agent.
import { addressesOf, borrowersOf } from '../../src/datastore/borrowers.ts';
import type { FollowedRecord, Query } from '../../src/datastore/follow.ts';
import { sourcesOf } from '../../src/datastore/orch/query-sources.ts';
import type { ApiObject } from '../../src/kube/objects.ts';
import { decodeStoredResource } from '../../src/model/decode-resource.ts';
import { resourceIdOf } from '../../src/model/resource-id.ts';
import { parseAddress } from '../../src/net/address.ts';
import { formatCidr } from '../../src/net/cidr.ts';
import { ENDPOINT, RESOURCES, sampleBlocks } from './samples.ts';

const POLICY_SPEC = { podSelector: { matchLabels: { app: 'web' } }, ingress: [{}], policyTypes: ['Ingress'] };
const OWNER = { apiVersion: 'v1', kind: 'Node', name: 'n1', uid: 'u1' };

/** Objects of the orchestrator, with the query that finds each. */
export const OBJECTS: readonly (readonly [Query, ApiObject])[] = [
  [
    { kind: 'resources', of: 'NetworkPolicy' },
    {
      apiVersion: 'netplug.io/v3',
      kind: 'NetworkPolicy',
      metadata: { name: 'allow', namespace: 'shop', uid: 'u1', resourceVersion: '5', generation: 2 },
      spec: { selector: 'app == "web"', ingress: [{ action: 'Allow' }], newer: { field: 1 } },
    },
  ],
  [
    { kind: 'derived-resources', from: 'NetworkPolicy' },
    { metadata: { name: 'web', namespace: 'shop', uid: 'u2', resourceVersion: '6' }, spec: POLICY_SPEC },
  ],
  [
    { kind: 'other-nodes' },
    {
      metadata: { name: 'n1', labels: { zone: 'a' }, resourceVersion: '7', ownerReferences: [OWNER] },
      spec: { addresses: [{ address: '192.0.2.1', type: 'InternalIP' }] },
    },
  ],
];

/** Returns the records that a store which is asked for objects yields for one. */
export function recordsOf(query: Query, object: ApiObject): readonly FollowedRecord[] {
  const [source] = sourcesOf(query, 0, { withStored: true });
  return source?.watched?.recordsIn(object) ?? [];
}

export const RECORDS: readonly FollowedRecord[] = [
  ...OBJECTS.flatMap(([query, object]) => recordsOf(query, object)),
  ...RESOURCES.flatMap((raw): FollowedRecord[] => {
    const value = decodeStoredResource(raw);
    if (typeof value === 'string') return [];
    const which = resourceIdOf(value);
    return [{ kind: 'resource', query: 0, key: which.name, version: '3', which, value }];
  }),
  {
    kind: 'resource',
    query: 0,
    key: 'odd',
    version: '',
    which: { kind: 'Profile', name: 'odd' },
    problem: 'It is odd',
  },
  { kind: 'endpoint', query: 0, key: 'shop/web', version: 'uid/1', value: ENDPOINT },
  {
    kind: 'endpoint',
    query: 0,
    key: 'shop/reported',
    version: '',
    value: { ...ENDPOINT, spec: { ...ENDPOINT.spec, areAddressesReported: true, isTerminating: true } },
  },
  ...sampleBlocks().flatMap((value): FollowedRecord[] => {
    const base = { query: 0, key: formatCidr(value.cidr), version: '1' };
    const { cidr, node } = value;
    const route = { cidr, node, borrowed: addressesOf(cidr, borrowersOf(value)) };
    return [
      { ...base, kind: 'block', value },
      { ...base, kind: 'route', value: route },
    ];
  }),
  {
    kind: 'service',
    query: 0,
    key: 'shop/web-1',
    version: '',
    value: {
      namespace: 'shop',
      name: 'web',
      addresses: [parseAddress('10.0.0.1'), parseAddress('fd00::1')],
      ports: [{ protocol: 6, port: 80 }],
    },
  },
];
