import { expect, it } from 'vitest';
import { globalPolicy, podOf } from '../../../test/support/policy-arbitraries.ts';
import { PolicyCluster } from '../../../test/support/policy-cluster.ts';
import { parseAddress } from '../../net/address.ts';
import { evaluateEnd } from '../../policy/evaluate.ts';
import { MOST_LISTED } from '../../policy/feed/messages.ts';
import { requestContent } from '../../policy/packet-content.ts';
import { RequestLog } from './request-log.ts';

const cluster = new PolicyCluster();
cluster.putPod(podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true }));
cluster.put(globalPolicy('asks', { http: { methods: ['GET'], paths: [{ prefix: '/open' }] } }));

function noteTo(log: RequestLog, from: string, target: string, port = 80): void {
  const [endpoint] = cluster.state.endpoints.values();
  const [destination] = endpoint?.addresses ?? [];
  if (endpoint === undefined || destination === undefined) throw new Error('there is no pod');
  const content = requestContent('GET', target);
  const packet = {
    source: parseAddress(from),
    destination,
    protocol: 6,
    sourcePort: 1,
    destinationPort: port,
    content,
  };
  const end = evaluateEnd(cluster.state, { endpoint, direction: 'ingress', packet });
  const question = {
    source: { address: from, port: 1, principal: '' },
    destination: { address: '10.65.0.1', port },
    request: { method: 'GET', target },
  };
  log.note(question, { kind: 'judged', end, content });
}

it('a client that asks for much hides no request of another one', () => {
  const log = new RequestLog();
  for (let at = 0; at < 5000; at += 1) noteTo(log, '192.0.2.66', `/x${String(at)}`, 1 + at);
  noteTo(log, '192.0.2.7', '/admin?secret=1');
  const taken = log.take();
  expect(taken).toContainEqual(
    expect.objectContaining({ verdict: 'deny', source: '192.0.2.7', method: 'GET', path: '/admin', count: 1 }),
  );
  const counted = taken.filter(({ source }) => source === '192.0.2.66').reduce((sum, { count }) => sum + count, 0);
  expect([counted, taken.length <= MOST_LISTED]).toEqual([5000, true]);
  expect(log.take()).toEqual([]);
});

it('many clients are counted, and what is sent of them is bounded', () => {
  const log = new RequestLog();
  for (let at = 0; at < 5000; at += 1) noteTo(log, `198.51.${String(at >> 8)}.${String(at & 255)}`, `/x${String(at)}`);
  const taken = log.take();
  expect(taken.reduce((sum, { count }) => sum + count, 0)).toBe(5000);
  expect(taken.length).toBeLessThanOrEqual(MOST_LISTED);
});
