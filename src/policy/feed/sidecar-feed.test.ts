import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { change, globalPolicy, nodeAt, podOf } from '../../../test/support/policy-arbitraries.ts';
import { PolicyCluster } from '../../../test/support/policy-cluster.ts';
import { judgeRequest } from '../../../test/support/judge-request.ts';
import { aboutRequests, question } from '../../../test/support/request-arbitraries.ts';
import { parseAddress } from '../../net/address.ts';
import { evaluateEnd } from '../evaluate.ts';
import { requestContent } from '../packet-content.ts';
import type { PolicyRule } from '../resolved-policy.ts';
import { FedSets } from './fed-sets.ts';
import type { FedPart } from './messages.ts';
import { MissingPart, ReceivedView } from './received-view.ts';
import { SidecarFeed } from './sidecar-feed.ts';
import { FORMAT_1, lowered } from './wire-rule.ts';

/** Keys of endpoints. */
const PODS = ['x', 'y'].flatMap((namespace) => [1, 2, 3].map((ordinal) => keyOf(namespace, ordinal)));

function keyOf(namespace: string, ordinal: number): string {
  const cluster = new PolicyCluster();
  cluster.putPod(podOf({ namespace, ordinal, role: 'a', isLocal: true }));
  return [...cluster.state.endpoints.keys()].join();
}

/** A sidecar that is fed as the agent does. */
class FedSidecar {
  readonly view = new ReceivedView();
  readonly #feed: SidecarFeed;

  constructor(cluster: PolicyCluster, sets: FedSets, pod: string) {
    this.#feed = new SidecarFeed(cluster.state, sets, { pod, known: FORMAT_1 });
    this.follow();
  }

  get feed(): SidecarFeed {
    return this.#feed;
  }

  follow(): readonly FedPart[] {
    const parts = JSON.parse(JSON.stringify(this.#feed.next())) as readonly FedPart[];
    this.view.apply(parts);
    return parts;
  }
}

it('sidecars that follow, early or late, judge each request as the agent would', () => {
  let [judged, denied] = [0, 0];
  fc.assert(
    fc.property(
      fc.array(
        fc.array(fc.oneof({ weight: 3, arbitrary: change }, { weight: 2, arbitrary: aboutRequests }), {
          minLength: 1,
          maxLength: 12,
        }),
        { minLength: 2, maxLength: 8 },
      ),
      fc.array(question, { minLength: 12, maxLength: 12 }),
      (batches, questions) => {
        const cluster = new PolicyCluster();
        const sets = new FedSets(cluster.state);
        const early = PODS.map((pod) => new FedSidecar(cluster, sets, pod));
        for (const batch of batches) {
          for (const apply of batch) {
            const touched = apply(cluster);
            const changed = sets.update(touched);
            for (const each of early) if (each.feed.isTouched(touched, changed)) each.follow();
            sets.retain(new Set(early.flatMap(({ feed }) => [...feed.setKeys])));
          }
        }
        const late = PODS.map((pod) => new FedSidecar(cluster, sets, pod));
        for (const [at, pod] of PODS.entries()) {
          const endpoint = cluster.state.endpoints.get(pod);
          if (endpoint === undefined) continue;
          for (const { packet, content } of questions) {
            const destination = endpoint.addresses.find(({ family }) => family === packet.source.family);
            if (destination === undefined) continue;
            const asked = { ...packet, destination, content };
            const expected = judgeRequest(cluster.state, endpoint, asked);
            const exact = evaluateEnd(cluster.state, { endpoint, direction: 'ingress', packet: asked });
            for (const sidecar of [early[at], late[at]]) {
              const own = sidecar?.view.endpoint;
              if (own === undefined || sidecar === undefined) throw new Error(`nothing was fed for ${pod}`);
              // What it once judged it goes on judging, also when the last rule about requests went.
              const isJudged = sidecar.view.asks;
              const said = isJudged
                ? evaluateEnd(sidecar.view, { endpoint: own, direction: 'ingress', packet: asked })
                : undefined;
              const wanted = isJudged ? exact : expected;
              expect([own.key, said?.verdict, said?.decision]).toEqual([pod, wanted?.verdict, wanted?.decision]);
            }
            if (expected !== undefined) judged += 1;
            if (expected?.verdict === 'deny') denied += 1;
          }
        }
      },
    ),
    { numRuns: 250 },
  );
  expect(Math.min(denied, judged - denied)).toBeGreaterThan(20);
});

describe('a sidecar is fed', () => {
  const fed = (): { cluster: PolicyCluster; sets: FedSets; sidecar: FedSidecar } => {
    const cluster = new PolicyCluster();
    cluster.putPod(podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true }));
    const sets = new FedSets(cluster.state);
    return { cluster, sets, sidecar: new FedSidecar(cluster, sets, keyOf('x', 1)) };
  };

  it('no policies while none of them is about requests', () => {
    const { cluster, sidecar } = fed();
    cluster.put(globalPolicy('plain', { source: { selector: 'all()' } }));
    expect(sidecar.follow()).toEqual([]);
    cluster.put(globalPolicy('asks', { http: { methods: ['GET'] } }));
    expect(
      sidecar
        .follow()
        .map(({ type }) => type)
        .toSorted(),
    ).toEqual(['endpoint', 'policy', 'policy', 'set']);
  });

  it('what is left of its policies when the last rule about requests goes', () => {
    const { cluster, sets, sidecar } = fed();
    cluster.put(globalPolicy('asks', { http: { methods: ['GET'] } }));
    sidecar.follow();
    expect(sidecar.view.asks).toBe(true);
    const touched = cluster.put(globalPolicy('asks', { source: { nets: ['192.0.2.0/24'] } }));
    expect(sidecar.feed.isTouched(touched, sets.update(touched))).toBe(true);
    sidecar.follow();
    expect([sidecar.view.asks, sidecar.view.tiers.length]).toEqual([true, cluster.state.tiers.length]);
  });

  it('the members of a selector that went and came again', () => {
    const { cluster, sets, sidecar } = fed();
    const asks = globalPolicy('asks', { http: {}, source: { selector: "role == 'b'" } });
    cluster.put(asks);
    sidecar.follow();
    const changes = [
      cluster.put(globalPolicy('asks', { http: {} })),
      cluster.putPod(podOf({ namespace: 'x', ordinal: 2, role: 'b', isLocal: false })),
      cluster.put(asks),
    ];
    // Between two generations there may be many changes.
    for (const touched of changes) sets.update(touched);
    sidecar.follow();
    const own = sidecar.view.endpoint;
    const [source, destination] = ['10.65.0.2', '10.65.0.1'].map(parseAddress);
    if (source === undefined || destination === undefined || own === undefined) throw new Error('nothing was fed');
    const packet = { source, destination, protocol: 6, sourcePort: 1, destinationPort: 80 };
    expect(judgeRequest(sidecar.view, own, { ...packet, content: requestContent('GET', '/') })?.verdict).toBe('allow');
  });

  it('only the change of a set, in pieces when it is large', () => {
    const { cluster, sets, sidecar } = fed();
    cluster.put(globalPolicy('asks', { http: {}, source: { selector: "role == 'b'" } }));
    sidecar.follow();
    const touched = cluster.putPod(podOf({ namespace: 'x', ordinal: 2, role: 'b', isLocal: false }));
    expect(sidecar.feed.isTouched(touched, sets.update(touched))).toBe(true);
    expect(sidecar.follow()).toEqual([
      expect.objectContaining({ isWhole: false, added: ['10.65.0.2/32', 'fd00:65::2/128'], removed: [] }),
    ]);
  });

  it('nothing when pods come that no rule of its own is about', () => {
    const { cluster, sets, sidecar } = fed();
    cluster.put(globalPolicy('asks', { http: {}, source: { selector: "role == 'b'" } }));
    sidecar.follow();
    const touched = cluster.putPod(podOf({ namespace: 'x', ordinal: 2, role: 'c', isLocal: false }));
    expect(sidecar.feed.isTouched(touched, sets.update(touched))).toBe(false);
    expect(sidecar.follow()).toEqual([]);
  });

  it('tunnel addresses that stand for nodes in networks of its rules', () => {
    const { cluster, sets, sidecar } = fed();
    cluster.put(globalPolicy('asks', { http: {}, source: { nets: ['192.0.2.0/24'] } }));
    sidecar.follow();
    const touched = cluster.put(nodeAt('m', ['192.0.2.7'], ['10.65.0.9', 'fd00:65::9']));
    expect(sidecar.feed.isTouched(touched, sets.update(touched))).toBe(true);
    sidecar.follow();
    const [source, destination] = ['10.65.0.9', '10.65.0.1'].map(parseAddress);
    const own = sidecar.view.endpoint;
    if (source === undefined || destination === undefined || own === undefined) throw new Error('nothing was fed');
    const packet = { source, destination, protocol: 6, sourcePort: 1, destinationPort: 80 };
    expect(judgeRequest(sidecar.view, own, { ...packet, content: requestContent('GET', '/') })?.verdict).toBe('allow');
  });
});

it('what is missing is no empty set', () => {
  const { state } = new PolicyCluster();
  const view = new ReceivedView();
  const selector = { id: 'all()', text: 'all()', selector: { kind: 'all' } } as const;
  expect(state.isMember(selector, parseAddress('10.65.0.1'))).toBe(false);
  expect(() => view.isMember(selector, parseAddress('10.65.0.1'))).toThrow(MissingPart);
});

describe('for a sidecar that does not know a part of rules', () => {
  const rule = (action: PolicyRule['action']): PolicyRule => ({
    action,
    protocol: 6,
    source: { service: { namespace: 'x', name: 'web' } },
    destination: {},
    index: 0,
    http: { methods: ['GET'] },
  });
  const older = [
    { rule: FORMAT_1.rule.filter((field) => field !== 'http'), peer: FORMAT_1.peer },
    { rule: FORMAT_1.rule, peer: FORMAT_1.peer.filter((field) => field !== 'service') },
  ];

  it.each(['Allow', 'Pass', 'Log'] as const)('a rule that says %s is left out', (action) => {
    expect(older.map((known) => lowered(rule(action), known))).toEqual([undefined, undefined]);
  });

  it('a rule that denies loses the part, so that it denies more', () => {
    const { http: _, ...withoutHttp } = rule('Deny');
    expect(older.map((known) => lowered(rule('Deny'), known))).toEqual([withoutHttp, { ...rule('Deny'), source: {} }]);
  });

  it('other rules stay as they are', () => {
    const whole = rule('Allow');
    expect(lowered(whole, FORMAT_1)).toBe(whole);
  });
});
