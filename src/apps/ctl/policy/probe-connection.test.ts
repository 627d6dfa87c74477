import { describe, expect, it } from 'vitest';
import { podOf } from '../../../../test/support/ctl-cluster.ts';
import { parseAddress } from '../../../net/address.ts';
import { PolicyState } from '../../../policy/policy-state.ts';
import { findEnd, type Targets } from './connection-ends.ts';
import { judgeConnections } from './explain-connection.ts';
import { probeConnection } from './probe-connection.ts';

describe('the places of a probe', () => {
  it.each([
    ['n1', ['egress of shop/web', 'ingress of shop/db']],
    ['n2', ['egress of shop/web']],
  ])('end where the packet leaves the node, when node %s translates it', async (translating, places) => {
    const view = new PolicyState();
    const pods = [podOf('web', 'n1', ['10.0.0.1/32']), podOf('db', 'n1', ['10.0.0.2/32'])];
    view.apply(pods.map((value) => ({ kind: 'endpoint', key: value.metadata.name, value })));
    const plan = { view, nodes: [], pools: [], floating: [] };
    const [from, to] = [findEnd(plan, 'shop/web'), findEnd(plan, 'shop/db')];
    const of = 'Service shop/db';
    const address = parseAddress('192.0.2.9');
    const translation = { address, port: 30_080, targetPort: 8080, node: translating, isMasqueraded: true, of };
    const targetsFrom = (): Targets => ({ targets: to.addresses.map((end) => ({ end, translation })), notes: [] });
    const [connection] = judgeConnections({
      plan,
      from,
      to: { ...to, targetsFrom },
      protocol: 'TCP',
      port: 30_080,
      endpointToHost: () => 'Accept',
    });
    // What the kernel does is not asked here: the places are those that are looked for in its trail.
    const probe = { follow: async () => Promise.resolve({ steps: [], end: 'passed' as const }) };
    const question = { view, node: 'n1', connection: connection!, protocol: 'TCP' as const };
    const probed = await probeConnection(probe, question, new AbortController().signal);
    expect(probed.places.map(({ place }) => place)).toEqual(places);
  });
});
