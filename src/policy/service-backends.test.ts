import { describe, expect, it } from 'vitest';
import type { EndpointOfService, Service } from '../model/service.ts';
import { formatAddress, parseAddress } from '../net/address.ts';
import { parseCidr } from '../net/cidr.ts';
import { headlessAddresses, serviceBackends, type ServiceQuestion } from './service-backends.ts';

const WEB = { name: 'web', protocol: 6, port: 80 } as const;

function service(more: Partial<Service> = {}): Service {
  return {
    namespace: 'shop',
    name: 'web',
    isHeadless: false,
    clusterIps: [parseAddress('10.96.0.7')],
    externalAddresses: [],
    balancerAddresses: [],
    sourceRanges: [],
    ports: [WEB],
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Cluster',
    hasAffinity: false,
    ...more,
  };
}

/** `ADDRESS@NODE`, followed by what it is: ready unless `!` (not ready) or `~` (ends, and serves). `:PORT` is not 8080. */
function endpoint(text: string): EndpointOfService {
  const [, address = '', node = '', port = '8080', state] = /^([\d.]+)@(\w*)(?::(\d+))?([!~])?$/.exec(text) ?? [];
  return {
    address: parseAddress(address),
    ...(node === '' ? {} : { node }),
    isReady: state === undefined,
    isServing: state !== '!',
    isTerminating: state === '~',
    hasHints: false,
    ports: [
      { name: 'metrics', protocol: 6, port: 9090 },
      { name: 'web', protocol: 6, port: Number(port) },
    ],
  };
}

const POD = parseAddress('10.0.0.9');
const FAR = parseAddress('198.51.100.1');
const INSIDE = { side: 'internal', client: 'pod', from: POD, node: 'n1', isClientThere: true } as const;
const FROM_POD = { ...INSIDE, side: 'external' } as const;
const OUTSIDE = { side: 'external', client: 'outside', from: FAR, node: 'n1', isClientThere: false } as const;

type Row = readonly [
  what: string,
  asked: Omit<ServiceQuestion, 'service' | 'endpoints' | 'port'> & { readonly of?: Partial<Service> },
  endpoints: string,
  backends: string,
  isMasqueraded: boolean,
];

const TABLE: readonly Row[] = [
  ['all ready endpoints', INSIDE, '10.0.0.1@n1 10.0.0.2@n2', '10.0.0.1:8080 10.0.0.2:8080', false],
  ['none that is not ready', INSIDE, '10.0.0.1@n1! 10.0.0.2@n2', '10.0.0.2:8080', false],
  ['none that ends while others are ready', INSIDE, '10.0.0.1@n1~ 10.0.0.2@n2', '10.0.0.2:8080', false],
  ['those that end when no other serves', INSIDE, '10.0.0.1@n1~ 10.0.0.2@n2!', '10.0.0.1:8080', false],
  [
    'the number that each slice gives a named port',
    INSIDE,
    '10.0.0.1@n1 10.0.0.2@n2:81',
    '10.0.0.1:8080 10.0.0.2:81',
    false,
  ],
  ['endpoints outside the cluster', INSIDE, '198.51.100.1@', '198.51.100.1:8080', false],
  [
    'those of the node with internalTrafficPolicy Local',
    { ...INSIDE, of: { internalTrafficPolicy: 'Local' } },
    '10.0.0.1@n1 10.0.0.2@n2',
    '10.0.0.1:8080',
    false,
  ],
  [
    'those that end on the node, rather than ready ones elsewhere',
    { ...INSIDE, of: { internalTrafficPolicy: 'Local' } },
    '10.0.0.1@n1~ 10.0.0.2@n2',
    '10.0.0.1:8080',
    false,
  ],
  [
    'all, masqueraded, for clients from outside',
    OUTSIDE,
    '10.0.0.1@n1 10.0.0.2@n2',
    '10.0.0.1:8080 10.0.0.2:8080',
    true,
  ],
  [
    'those of the node with externalTrafficPolicy Local, from their clients',
    { ...OUTSIDE, of: { externalTrafficPolicy: 'Local' } },
    '10.0.0.1@n1 10.0.0.2@n2',
    '10.0.0.1:8080',
    false,
  ],
  [
    'those of each node where the node is not known',
    { ...OUTSIDE, node: undefined, of: { externalTrafficPolicy: 'Local' } },
    '10.0.0.1@n1 10.0.0.2@n2 10.0.0.3@n2~',
    '10.0.0.1:8080 10.0.0.2:8080',
    false,
  ],
  [
    'all for a pod of the node, whatever externalTrafficPolicy is',
    { ...FROM_POD, of: { externalTrafficPolicy: 'Local' } },
    '10.0.0.1@n1 10.0.0.2@n2',
    '10.0.0.1:8080 10.0.0.2:8080',
    false,
  ],
  ['all, masqueraded, for a pod that uses an address for outside', FROM_POD, '10.0.0.2@n2', '10.0.0.2:8080', true],
  [
    'all for a pod that uses the cluster IP, whatever externalTrafficPolicy is',
    { ...INSIDE, of: { externalTrafficPolicy: 'Local' } },
    '10.0.0.2@n2',
    '10.0.0.2:8080',
    false,
  ],
];

function ask({ of, ...asked }: Row[1], endpoints: string): ReturnType<typeof serviceBackends> {
  const list = endpoints === '' ? [] : endpoints.split(' ').map((each) => endpoint(each));
  return serviceBackends({ service: service(of), port: WEB, endpoints: list, ...asked });
}

describe('the backends of a Service', () => {
  it.each(TABLE)('are %s', (_what, asked, endpoints, expected, isMasqueraded) => {
    const { backends, refusal, ...said } = ask(asked, endpoints);
    expect(backends.map(({ address, port }) => `${formatAddress(address)}:${String(port)}`).join(' ')).toBe(expected);
    expect([refusal, said.isMasqueraded]).toEqual([undefined, isMasqueraded]);
  });

  it.each<[string, Row[1], string, string]>([
    ['there is none', INSIDE, '', 'Service shop/web has no ready endpoint: kube-proxy rejects the connection'],
    ['none is ready', INSIDE, '10.0.0.1@n1!', 'has no ready endpoint (of 1): kube-proxy rejects'],
    [
      'the node has none with the policy Local',
      { ...INSIDE, of: { internalTrafficPolicy: 'Local' } },
      '10.0.0.2@n2',
      'internalTrafficPolicy is Local, and Service shop/web has no ready endpoint on node n1: kube-proxy drops',
    ],
  ])('say what becomes of the packet when %s', (_what, asked, endpoints, refusal) => {
    const { backends, ...said } = ask(asked, endpoints);
    expect([backends, said.refusal]).toEqual([[], expect.stringContaining(refusal)]);
  });

  it('say what was left out, and what was not looked at', () => {
    expect(ask(INSIDE, '10.0.0.1@n1! 10.0.0.2@n2').notes).toEqual([
      '1 endpoint of the Service not ready: no connection goes there',
    ]);
    const local = { ...INSIDE, of: { internalTrafficPolicy: 'Local' } } as const;
    expect(ask(local, '10.0.0.1@n1 10.0.0.2@n2').notes).toEqual([
      'internalTrafficPolicy is Local: only endpoints on node n1 are used, 1 other not',
    ]);
    const sticky = serviceBackends({
      service: service({ hasAffinity: true }),
      port: WEB,
      endpoints: ['10.0.0.1@n1', '10.0.0.2@n2'].map((each) => ({ ...endpoint(each), hasHints: true })),
      ...INSIDE,
    });
    expect(sticky.notes).toEqual([
      'sessionAffinity is ClientIP: all connections of a client go to one of the backends',
      'endpoints have hints: which of them the zone of the client leaves out was not looked at',
    ]);
  });

  it.each<[string, string, string, Row[1]]>([
    ['drop', 'from outside', '203.0.113.0/24', { ...OUTSIDE, side: 'balancer' }],
    ['drop', 'that are pods', '203.0.113.0/24', { ...FROM_POD, side: 'balancer' }],
    ['pass', 'in one of them', '203.0.113.0/24 198.51.100.0/24', { ...OUTSIDE, side: 'balancer' }],
    ['pass', 'of the other family', '2001:db8::/32', { ...OUTSIDE, side: 'balancer' }],
    ['pass', 'of other addresses for outside', '203.0.113.0/24', OUTSIDE],
    ['pass', 'of the cluster IP', '203.0.113.0/24', INSIDE],
  ])('%s clients %s with the ranges %s of the load balancer', (said, _who, ranges, asked) => {
    const sourceRanges = ranges.split(' ').map((text) => parseCidr(text));
    const { backends, refusal } = ask({ ...asked, of: { sourceRanges } }, '10.0.0.1@n1');
    const dropped = [0, expect.stringContaining('no range of loadBalancerSourceRanges of Service shop/web has ')];
    expect([backends.length, refusal]).toEqual(said === 'drop' ? dropped : [1, undefined]);
  });

  it('of a headless one are the ready addresses that DNS names', () => {
    const of = (...texts: string[]): ReturnType<typeof headlessAddresses> =>
      headlessAddresses(texts.map((each) => endpoint(each)));
    expect(of('10.0.0.1@n1', '10.0.0.2@n2!')).toMatchObject({ addresses: [parseAddress('10.0.0.1')] });
    expect(of('10.0.0.2@n2!').refusal).toBe('no endpoint is ready (of 1): DNS names no address of the Service');
  });
});
