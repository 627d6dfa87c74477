import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { change, globalPolicy, hostEndpoint, podOf } from '../../test/support/policy-arbitraries.ts';
import { judgeRequest } from '../../test/support/judge-request.ts';
import { aboutRequests, METHODS, question, TARGETS } from '../../test/support/request-arbitraries.ts';
import { PolicyCluster } from '../../test/support/policy-cluster.ts';
import { parseAddress } from '../net/address.ts';
import { evaluateEnd } from './evaluate.ts';
import type { Packet } from './match-packet.ts';
import { requestPortsOf } from './judge-request.ts';
import { narrowView } from './narrow-view.ts';
import { type PacketContent, requestContent, type RequestPeer } from './packet-content.ts';
import type { PolicyView } from './policy-view.ts';
import type { HttpMatch, PolicyEndpoint, PolicyRule } from './resolved-policy.ts';

interface Asked {
  readonly view: PolicyView;
  readonly endpoint: PolicyEndpoint;
  readonly packet: Packet;
  readonly content: PacketContent;
}

/** Asks each pod about random requests in random clusters. */
function forAll(check: (asked: Asked) => void): void {
  fc.assert(
    fc.property(
      fc.array(fc.oneof({ weight: 4, arbitrary: change }, { weight: 1, arbitrary: aboutRequests }), {
        minLength: 8,
        maxLength: 40,
      }),
      fc.array(question, { minLength: 20, maxLength: 20 }),
      (changes, questions) => {
        const { state: view } = clusterAfter(changes);
        for (const endpoint of view.endpoints.values()) {
          if (endpoint.kind !== 'workload') continue;
          for (const { packet, content: known } of questions) {
            const destination = endpoint.addresses.find(({ family }) => family === packet.source.family);
            if (destination !== undefined)
              check({ view, endpoint, packet: { ...packet, destination }, content: known });
          }
        }
      },
    ),
    { numRuns: 250 },
  );
}

function clusterAfter(changes: readonly ((cluster: PolicyCluster) => unknown)[]): PolicyCluster {
  const cluster = new PolicyCluster();
  for (const apply of changes) apply(cluster);
  return cluster;
}

/** What the kernel lets pass, which sees addresses and ports. */
function passesKernel({ view, endpoint, packet }: Asked): boolean {
  return evaluateEnd(view, { endpoint, direction: 'ingress', packet }).verdict === 'allow';
}

function passesSidecar({ view, endpoint, packet, content }: Asked): boolean {
  return judgeRequest(view, endpoint, { ...packet, content })?.verdict !== 'deny';
}

function isAllowed({ view, endpoint, packet, content }: Asked): boolean {
  return evaluateEnd(view, { endpoint, direction: 'ingress', packet: { ...packet, content } }).verdict === 'allow';
}

describe('kernel and sidecar together', () => {
  it('let nothing pass that policies do not allow', () => {
    let [passed, refused] = [0, 0];
    forAll((asked) => {
      if (!passesKernel(asked)) return;
      const isPassed = passesSidecar(asked);
      if (isPassed) passed += 1;
      else refused += 1;
      expect(isAllowed(asked)).toBe(isPassed);
    });
    expect(Math.min(passed, refused)).toBeGreaterThan(20);
  });

  it('cut nothing that policies allow, where requests are judged', () => {
    let count = 0;
    forAll((asked) => {
      const { destination, destinationPort } = asked.packet;
      if (!asked.view.isGuarded(destination, destinationPort ?? 0) || !isAllowed(asked)) return;
      count += 1;
      expect([passesKernel(asked), passesSidecar(asked)]).toEqual([true, true]);
    });
    expect(count).toBeGreaterThan(20);
  });

  it('keep closed what only rules about requests open, where nothing judges them', () => {
    let count = 0;
    forAll((asked) => {
      const { view, packet } = asked;
      if (view.isGuarded(packet.destination, packet.destinationPort ?? 0)) return;
      const withoutRequests = withoutHttp(view);
      count += 1;
      expect(passesKernel(asked)).toBe(passesKernel({ ...asked, view: withoutRequests }));
    });
    expect(count).toBeGreaterThan(20);
  });

  it('decide as the kernel alone where no rule is about requests or accounts', () => {
    let count = 0;
    forAll((asked) => {
      const { view, endpoint, packet, content: known } = asked;
      if (judgeRequest(view, endpoint, { ...packet, content: known }) !== undefined) return;
      count += 1;
      expect(passesKernel(asked)).toBe(isAllowed(asked));
    });
    expect(count).toBeGreaterThan(20);
  });
});

it('the rules that a client can match judge its requests as all rules do', () => {
  let [allowed, denied] = [0, 0];
  forAll(({ view, endpoint, packet, content: known }) => {
    const { sourcePort: _, ...client } = packet;
    const narrow = narrowView(view, endpoint, { ...client, content: known });
    const silent: (readonly string[])[] = [];
    const ask = (each: PolicyView) => {
      const end = evaluateEnd(each, { endpoint, direction: 'ingress', packet: { ...packet, content: known } });
      const { policies = [], ...decision } = { policies: undefined, ...end.decision };
      silent.push(policies);
      // Policies that say nothing may be missing, but for one where all of them are the reason.
      return {
        ...end,
        decision: { ...decision, hasPolicies: policies.length > 0 },
        considered: end.considered.filter(({ action, logs }) => action !== undefined || logs.length > 0),
      };
    };
    const expected = ask(view);
    if (expected.verdict === 'allow') allowed += 1;
    else denied += 1;
    expect(ask(narrow)).toEqual(expected);
    const [all = [], some = []] = silent;
    expect(all).toEqual(expect.arrayContaining([...some]));
  });
  expect(Math.min(allowed, denied)).toBeGreaterThan(20);
});

it('requests match as a second reading of the rules says', () => {
  const http = fc.record(
    {
      methods: fc.subarray([...METHODS, '*'], { minLength: 1 }),
      paths: fc.array(
        fc.oneof(
          fc.record({ exact: fc.constantFrom('/a', '/b', '/') }),
          fc.record({ prefix: fc.constantFrom('/a', '/a/', '/') }),
        ),
        { minLength: 1, maxLength: 3 },
      ),
    },
    { requiredKeys: [] },
  );
  let [allowed, denied] = [0, 0];
  fc.assert(
    fc.property(http, fc.constantFrom(...METHODS), fc.constantFrom(...TARGETS), (asked, method, target) => {
      const { view, endpoint, packet } = guarded(asked);
      const isExpected = naivelyMatches(asked, method, target);
      if (isExpected) allowed += 1;
      else denied += 1;
      expect(isAllowed({ view, endpoint, packet, content: requestContent(method, target) })).toBe(isExpected);
    }),
    { numRuns: 400 },
  );
  expect(Math.min(allowed, denied)).toBeGreaterThan(50);
});

/** A pod to which a policy lets these requests through, and a guard of its port. */
function guarded(http: HttpMatch, more: object = {}): Omit<Asked, 'content'> {
  const cluster = clusterAfter([
    (each) => each.putAccount('x', 'one'),
    (each) => each.putAccount('x', 'two'),
    (each) => each.putAccount('y', 'one'),
    (each) => each.putPod(podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true })),
    (each) => each.putPod(podOf({ namespace: 'x', ordinal: 2, role: 'b', isLocal: true })),
    (each) => each.put(globalPolicy('p', { http, ...more })),
    (each) => each.putGuard(1, [80]),
  ]);
  const endpoint = [...cluster.state.endpoints.values()].find(({ shown }) => shown === 'x/pod1');
  if (endpoint === undefined) throw new Error('the pod has no endpoint');
  const [source, destination] = ['10.65.0.2', '10.65.0.1'].map(parseAddress);
  if (source === undefined || destination === undefined) throw new Error('two addresses were written');
  return {
    view: cluster.state,
    endpoint,
    packet: { source, destination, protocol: 6, sourcePort: 40_000, destinationPort: 80 },
  };
}

/** Written without a look at the code: a list of the paths that a canonical target may have here. */
function naivelyMatches({ methods, paths }: HttpMatch, method: string, target: string): boolean {
  const known: Readonly<Record<string, string>> = {
    '/a': '/a',
    '/a/b': '/a/b',
    '/ab': '/ab',
    '/b?x=/a': '/b',
    '/a/': '/a/',
    '/': '/',
    '/%61': '/a',
  };
  const path = known[target];
  if (methods?.includes('*') === false && !methods.includes(method)) return false;
  if (paths === undefined) return true;
  if (path === undefined) return false;
  const segments = path.split('/');
  return paths.some((each) => {
    if ('exact' in each) return each.exact === path;
    const wanted = each.prefix.split('/');
    const isBelow = each.prefix.endsWith('/');
    if (isBelow)
      return segments.length >= wanted.length && wanted.slice(0, -1).every((one, at) => one === segments[at]);
    return wanted.every((one, at) => one === segments[at]);
  });
}

describe('a rule about requests', () => {
  it('opens to the kernel one TCP port, and says who decides', () => {
    const { view, endpoint, packet } = guarded({ methods: ['GET'] });
    const ask = (change: Partial<Packet>) =>
      evaluateEnd(view, { endpoint, direction: 'ingress', packet: { ...packet, ...change } });
    expect([ask({}).verdict, ask({}).asks]).toEqual(['allow', 'sidecar']);
    expect(ask({ destinationPort: 81 }).verdict).toBe('deny');
    expect(ask({ protocol: 17 }).verdict).toBe('deny');
    expect(ask({ content: requestContent('GET', '/') }).asks).toBeUndefined();
  });

  it('never matches at a host endpoint, whatever is guarded behind it', () => {
    const cluster = clusterAfter([
      (each) => each.putPod(podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true })),
      (each) => each.put(hostEndpoint('h', { node: 'n1', interfaceName: '*' }, { host: 'yes' })),
      (each) => each.put(globalPolicy('p', { http: {} }, { selector: "host == 'yes'", applyOnForward: true })),
      (each) => each.putGuard(1, [80]),
    ]);
    const [endpoint] = cluster.state.hostEndpoints.values();
    const { packet } = guarded({});
    if (endpoint === undefined) throw new Error('there is no host endpoint');
    const verdictOn = (path: 'local' | 'forwarded') =>
      evaluateEnd(cluster.state, { endpoint, direction: 'ingress', path, packet }).verdict;
    expect([verdictOn('local'), verdictOn('forwarded')]).toEqual(['deny', 'deny']);
  });

  it('with a condition of a later release matches nothing', () => {
    for (const http of [{ methods: ['GET'], headers: [] }, { paths: [{ prefix: '/', hosts: [] }] }]) {
      const { view, endpoint, packet } = guarded(http);
      expect(isAllowed({ view, endpoint, packet, content: requestContent('GET', '/') })).toBe(false);
    }
  });

  it('never lets a connection pass in which no request is seen', () => {
    const { view, endpoint, packet } = guarded({});
    expect(isAllowed({ view, endpoint, packet, content: { kind: 'stream' } })).toBe(false);
  });

  it.each<[RequestPeer | undefined, boolean]>([
    [undefined, true],
    [{ namespace: 'x', name: 'one' }, true],
    [{ namespace: 'y', name: 'one' }, false],
    [{ namespace: 'x', name: 'two' }, false],
    ['nobody', false],
  ])('with accounts, takes %j as the client: %s', (client, isExpected) => {
    const source = { serviceAccounts: { names: ['one'] }, namespaceSelector: "netplug/name == 'x'" };
    const { view, endpoint, packet } = guarded({}, { source });
    expect(isAllowed({ view, endpoint, packet, content: requestContent('GET', '/', client) })).toBe(isExpected);
  });
});

it.each<[string, object, readonly number[]]>([
  ['ports, those', { ports: [80, 90] }, [80, 90]],
  ['a name, the port of that name', { ports: ['web'] }, [8001]],
  [
    'a long range, what the pod declares in it, and its beginning',
    { ports: ['7901:8999'] },
    [8001, ...upFrom(7901, 64)],
  ],
  ['no ports, those that the pod declares, without those of the mesh', {}, [8001]],
])('takes for the ports that a rule with %s may open', (_, destination, expected) => {
  const ports = [
    { name: 'web', containerPort: 8001 },
    { name: 'http-envoy-prom', containerPort: 15_090 },
  ];
  const { state } = clusterAfter([
    (each) => each.putPod({ ...podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true }), ports }),
    (each) => each.put(globalPolicy('p', { protocol: 'TCP', destination, http: { methods: ['GET'] } })),
  ]);
  const [endpoint] = state.endpoints.values();
  expect([...requestPortsOf(state, endpoint as PolicyEndpoint)]).toEqual(expected);
});

function upFrom(first: number, count: number): readonly number[] {
  return Array.from({ length: count }, (_, at) => first + at);
}

function withoutHttp(view: PolicyView): PolicyView {
  const isKept = ({ http }: PolicyRule): boolean => http === undefined;
  return new Proxy(view, {
    get: (target, key) => {
      if (key === 'policiesOf')
        return (...asked: Parameters<PolicyView['policiesOf']>) =>
          target.policiesOf(...asked).map((policy) => ({
            ...policy,
            rules: { ...policy.rules, ingress: policy.rules.ingress?.filter(isKept) },
          }));
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
