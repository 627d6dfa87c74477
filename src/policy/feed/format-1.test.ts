import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { judgeRequest } from '../../../test/support/judge-request.ts';
import { globalPolicy, nodeAt, podOf } from '../../../test/support/policy-arbitraries.ts';
import { PolicyCluster } from '../../../test/support/policy-cluster.ts';
import { parseAddress } from '../../net/address.ts';
import { requestContent } from '../packet-content.ts';
import { FedSets } from './fed-sets.ts';
import { type FedPart, FORMAT } from './messages.ts';
import { ReceivedView } from './received-view.ts';
import { SidecarFeed } from './sidecar-feed.ts';
import { FORMAT_1 } from './wire-rule.ts';

// What agents of the first release with sidecars say. Those of later releases understand it as long as they speak format 1.
const RECORDED = new URL('../../../test/golden/sidecar-format-1.json', import.meta.url);

function fed(): readonly FedPart[] {
  const cluster = new PolicyCluster();
  cluster.putAccount('x', 'one');
  cluster.putPod(podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true }));
  cluster.putPod(podOf({ namespace: 'x', ordinal: 2, role: 'b', isLocal: false }));
  cluster.put(nodeAt('m', ['192.0.2.7'], ['10.65.0.9', 'fd00:65::9']));
  const rules = [
    { action: 'Deny', protocol: 'TCP', source: { notSelector: "role == 'b'", notNets: ['192.0.2.0/24'] } },
    {
      action: 'Allow',
      source: { serviceAccounts: { names: ['one'] }, namespaceSelector: 'all()' },
      destination: { ports: [80, '8000:8080', 'web'] },
      http: { methods: ['GET', 'HEAD'], paths: [{ exact: '/' }, { prefix: '/items' }] },
    },
    { action: 'Allow', ipVersion: 4, source: { nets: ['192.0.2.0/24'], notPorts: [1] }, http: { methods: ['POST'] } },
  ];
  cluster.put(globalPolicy('asks', {}, { ingress: rules }));
  const [key = ''] = [...cluster.state.endpoints].find(([, { shown }]) => shown === 'x/pod1') ?? [];
  const feed = new SidecarFeed(cluster.state, new FedSets(cluster.state), { pod: key, known: FORMAT_1 });
  return JSON.parse(JSON.stringify(feed.next())) as readonly FedPart[];
}

describe(`format ${String(FORMAT)}`, () => {
  it('is what the agent says', async () => {
    await expect(`${JSON.stringify(fed(), undefined, 2)}\n`).toMatchFileSnapshot(RECORDED.pathname);
  });

  it.each([
    ['10.65.0.2', 'GET', '/items/1', 'allow'],
    ['10.65.0.2', 'POST', '/items/1', 'deny'],
    ['203.0.113.5', 'POST', '/', 'deny'],
    ['192.0.2.9', 'POST', '/admin', 'allow'],
    ['192.0.2.9', 'DELETE', '/admin', 'deny'],
    // The tunnel address of the node 192.0.2.7.
    ['10.65.0.9', 'POST', '/', 'allow'],
  ])('is understood: %s %s %s: %s', (from, method, path, verdict) => {
    const view = new ReceivedView();
    view.apply(JSON.parse(readFileSync(RECORDED, 'utf8')) as readonly FedPart[]);
    const { endpoint } = view;
    if (endpoint === undefined) throw new Error('it names no pod');
    const packet = {
      source: parseAddress(from),
      destination: parseAddress('10.65.0.1'),
      protocol: 6,
      sourcePort: 40_000,
      destinationPort: 80,
      content: requestContent(method, path),
    };
    expect(judgeRequest(view, endpoint, packet)?.verdict).toBe(verdict);
  });
});
