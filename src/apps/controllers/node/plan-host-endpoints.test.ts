import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { automaticHostEndpointOf, hostEndpointOf, nodeOf } from '../../../../test/support/fixtures.ts';
import type { HostEndpoint } from '../../../model/host-endpoint.ts';
import type { Node } from '../../../model/node.ts';
import type { HostEndpointSettings } from '../../../config/controllers-settings.ts';
import { desiredHostEndpoints, planHostEndpoints } from './plan-host-endpoints.ts';

const ON: HostEndpointSettings = { autoCreate: true, createDefault: true, templates: [] };
const OFF: HostEndpointSettings = { ...ON, autoCreate: false };
const CREATED_BY = { 'netplug/created-by': 'netplug-orch-controllers' };
const anyNode = (): boolean => true;

function nodeWith(spec: Node['spec'], labels = {}): Node {
  return { ...nodeOf('n1', labels), spec };
}

/** The endpoints after the plan is carried out. */
function carriedOut(present: readonly HostEndpoint[], plan: ReturnType<typeof planHostEndpoints>): HostEndpoint[] {
  const byName = new Map(present.map((each) => [each.metadata.name, each]));
  for (const change of plan.changes) {
    if (change.kind === 'delete') byName.delete(change.which.name);
    else if (change.resource.kind === 'HostEndpoint') byName.set(change.resource.metadata.name, change.resource);
  }
  return [...byName.values()];
}

describe('automatic host endpoints', () => {
  it('are one per node, for all interfaces, with the labels of the node and a profile that allows [hep-auto]', () => {
    const bgp = { ipv4Address: '192.0.2.7/24', ipv6Address: '2001:DB8::7/64' };
    const node = nodeWith(
      {
        bgp,
        ipv4IPIPTunnelAddr: '10.0.0.1',
        ipv4VXLANTunnelAddr: '10.0.0.2',
        ipv6VXLANTunnelAddr: 'fd00::2',
        addresses: [
          { address: '192.0.2.7', type: 'NodeIP' },
          { address: '10.9.0.7', type: 'InternalIP' },
          { address: '203.0.113.7', type: 'ExternalIP' },
        ],
      },
      { zone: 'a', ...CREATED_BY, 'netplug/created-by': 'user' },
    );
    expect(desiredHostEndpoints(node, ON)).toEqual([
      {
        apiVersion: 'netplug.io/v3',
        kind: 'HostEndpoint',
        metadata: { name: 'n1-auto-hep', labels: { zone: 'a', ...CREATED_BY } },
        spec: {
          node: 'n1',
          interfaceName: '*',
          expectedIPs: ['192.0.2.7', '2001:db8::7', '10.0.0.1', '10.0.0.2', 'fd00::2', '10.9.0.7'],
          profiles: ['netplug-default-allow'],
        },
      },
    ]);
  });

  it('follow templates, for the nodes and interfaces that these select', () => {
    const templates = [
      { generateName: 'storage', interfaceCIDRs: ['10.9.0.0/16'], labels: { zone: 'b', net: 'storage' } },
      { generateName: 'gpu', interfaceCIDRs: ['0.0.0.0/0'], nodeSelector: 'has(gpu)' },
      { generateName: 'absent', interfaceCIDRs: ['172.16.0.0/12'] },
    ];
    const node = nodeWith(
      { bgp: { ipv4Address: '192.0.2.7/24' }, addresses: [{ address: '10.9.0.7', type: 'InternalIP' }] },
      { zone: 'a' },
    );
    const desired = desiredHostEndpoints(node, { ...ON, createDefault: false, templates });
    expect(desired.map(({ metadata }) => metadata)).toEqual([
      { name: 'n1-storage-auto-hep', labels: { zone: 'b', net: 'storage', ...CREATED_BY } },
    ]);
    expect(desired[0]?.spec).toEqual({ node: 'n1', expectedIPs: ['10.9.0.7'], profiles: ['netplug-default-allow'] });
  });

  it('are removed when they are switched off, and only they', () => {
    const made = automaticHostEndpointOf('n1');
    const automatic = { ...made, metadata: { ...made.metadata, resourceVersion: '7' } };
    const present = [
      automatic,
      hostEndpointOf('own', 'n1'),
      hostEndpointOf('labelled', 'n1', { labels: CREATED_BY }),
      hostEndpointOf('x-auto-hep', 'n1'),
    ];
    const plan = planHostEndpoints(desiredHostEndpoints(nodeOf('n1'), OFF), present, anyNode);
    expect(plan).toEqual({
      changes: [{ kind: 'delete', which: { kind: 'HostEndpoint', name: 'n1-auto-hep' }, version: '7' }],
      problems: [],
    });
  });

  it('leave an endpoint of a user that has their name alone, and report it [hep-auto-known]', () => {
    const plan = planHostEndpoints(
      desiredHostEndpoints(nodeOf('n1'), ON),
      [hostEndpointOf('n1-auto-hep', 'n9')],
      anyNode,
    );
    expect(plan.changes).toEqual([]);
    expect(plan.problems).toEqual([expect.stringContaining('HostEndpoint "n1-auto-hep" has the name')]);
  });

  it('go to the node of that name when two nodes claim one name', () => {
    const templates = [{ generateName: 'b', interfaceCIDRs: ['0.0.0.0/0'] }];
    const node = { ...nodeWith({ bgp: { ipv4Address: '192.0.2.7/24' } }), metadata: { name: 'a' } };
    const of = automaticHostEndpointOf('a-b');
    const desired = desiredHostEndpoints(node, { ...ON, createDefault: false, templates });
    expect(planHostEndpoints(desired, [of], anyNode)).toEqual({
      changes: [],
      problems: [expect.stringContaining('belongs to node "a-b"')],
    });
    // A node that is not there has none.
    expect(planHostEndpoints(desired, [of], () => false).changes).toMatchObject([{ kind: 'update' }]);
  });

  const labels = fc.dictionary(fc.constantFrom('zone', 'role', 'netplug/created-by'), fc.constantFrom('a', 'b'));
  const address = fc.constantFrom('192.0.2.1', '192.0.2.2', '10.0.0.1');
  const node = fc.record({ labels, addresses: fc.array(address), vxlan: fc.option(address, { nil: undefined }) });
  const profiles = fc.option(fc.constantFrom(['strict'], []), { nil: undefined });
  const old = fc.record({
    name: fc.constantFrom('n1-auto-hep', 'n1-gone-auto-hep', 'own'),
    labels,
    isOwned: fc.boolean(),
    node: fc.constantFrom('n1', 'gone'),
    profiles,
    expectedIPs: fc.option(fc.array(address), { nil: undefined }),
  });

  it('become the desired ones from every state in one step, and what users wrote stays', () => {
    fc.assert(
      fc.property(node, fc.uniqueArray(old, { selector: ({ name }) => name }), fc.boolean(), (given, olds, isOn) => {
        const addresses = given.addresses.map((each) => ({ address: each, type: 'InternalIP' }) as const);
        const spec = { addresses, ...(given.vxlan === undefined ? {} : { ipv4VXLANTunnelAddr: given.vxlan }) };
        const desired = desiredHostEndpoints(nodeWith(spec, given.labels), isOn ? ON : OFF);
        const present = olds.map((each) =>
          hostEndpointOf(each.name, each.node, {
            labels: { ...each.labels, 'netplug/created-by': each.isOwned ? 'netplug-orch-controllers' : 'user' },
            ...(each.profiles === undefined ? {} : { profiles: each.profiles }),
            ...(each.expectedIPs === undefined ? {} : { expectedIPs: each.expectedIPs }),
          }),
        );
        const isNode = (name: string): boolean => name === 'n1';
        const after = carriedOut(present, planHostEndpoints(desired, present, isNode));
        const again = planHostEndpoints(desired, after, isNode);
        expect(again.changes).toEqual([]);
        const now = new Map(after.map((each) => [each.metadata.name, each]));
        const isUsers = ({ metadata }: HostEndpoint): boolean =>
          metadata.labels?.['netplug/created-by'] === 'user' || metadata.name === 'own';
        expect(present.filter((each) => isUsers(each) && now.get(each.metadata.name) !== each)).toEqual([]);
        const kept = present.filter(({ metadata }) => now.has(metadata.name));
        expect(kept.map(({ metadata }) => now.get(metadata.name)?.spec.profiles)).toEqual(
          kept.map((each) => each.spec.profiles),
        );
        const decided = ({ metadata, spec: { node: on, interfaceName, expectedIPs } }: HostEndpoint): unknown => [
          metadata,
          on,
          interfaceName,
          expectedIPs,
        ];
        const collides = (again.problems ?? []).length > 0;
        const made = desired.flatMap(({ metadata }) => now.get(metadata.name) ?? []);
        expect(collides || made.map(decided)).toEqual(collides || desired.map(decided));
      }),
    );
  });
});
