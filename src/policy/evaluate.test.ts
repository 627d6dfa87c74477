import { describe, expect, it } from 'vitest';
import { decodeResource } from '../model/decode-resource.ts';
import type { AnyResource } from '../model/kinds.ts';
import { resourceIdOf } from '../model/resource-id.ts';
import { parseAddress } from '../net/address.ts';
import { endAt, type EndVerdict, evaluateConnection, evaluateEnd } from './evaluate.ts';
import type { PacketPath } from './packet-path.ts';
import type { Packet } from './match-packet.ts';
import { PolicyState } from './policy-state.ts';

const [WEB, DB, OUT] = ['10.0.0.1', '10.0.0.2', '192.0.2.1'].map(parseAddress);

function resource(kind: string, name: string, spec: object, more: object = {}): AnyResource {
  const read = decodeResource({ apiVersion: 'netplug.io/v3', kind, metadata: { name, ...more }, spec });
  if ('problems' in read) throw new Error(JSON.stringify(read.problems));
  return read.resource;
}

function policy(name: string, spec: object): AnyResource {
  return resource('NetworkPolicy', name, spec, { namespace: 'shop' });
}

const allowAll = [{ action: 'Allow' }];
const NAMESPACE = resource('Profile', 'kns.shop', {
  ingress: allowAll,
  egress: allowAll,
  labelsToApply: { 'pcns.team': 'a' },
});
const ACCOUNT = resource('Profile', 'ksa.shop.seller', { labelsToApply: { 'pcsa.role': 'sales' } });

function viewOf(...resources: readonly AnyResource[]): PolicyState {
  const view = new PolicyState();
  const pods = [
    { name: 'web', address: '10.0.0.1', account: 'seller' },
    { name: 'db', address: '10.0.0.2', account: 'default' },
  ];
  view.apply([
    ...[NAMESPACE, ACCOUNT, ...resources].map((value) => {
      return { kind: 'resource', which: resourceIdOf(value), value } as const;
    }),
    ...pods.map(({ name, address, account }) => {
      const value = {
        apiVersion: 'netplug.io/v3',
        kind: 'WorkloadEndpoint',
        metadata: { name, namespace: 'shop', labels: { app: name } },
        spec: {
          orchestrator: 'orch',
          node: 'n1',
          network: 'net',
          containerID: name,
          pod: name,
          endpoint: 'eth0',
          interfaceName: `npl${name}`,
          mac: '',
          ipNetworks: [`${address}/32`],
          profiles: ['kns.shop', `ksa.shop.${account}`],
          serviceAccountName: account,
          ports: [{ name: 'http', protocol: 'TCP', port: 80 }],
          ipam: '',
        },
      } as const;
      return { kind: 'endpoint', key: name, value } as const;
    }),
  ]);
  return view;
}

/** A packet to `web` from `db`, unless said otherwise. */
function packet(more: Partial<Packet> = {}): Packet {
  const base = { source: DB, destination: WEB, protocol: 6, sourcePort: 40_000, destinationPort: 80 };
  return { ...base, ...more } as Packet;
}

function atWeb(view: PolicyState, more: Partial<Packet> = {}): EndVerdict {
  const endpoint = view.endpoints.get('pod shop/web');
  if (endpoint === undefined) throw new Error('no endpoint');
  return evaluateEnd(view, { endpoint, direction: 'ingress', packet: packet(more) });
}

const ALL_PASS = ['allow', 'allow', 'allow'];
const NONE_PASS = ['deny', 'deny', 'deny'];

describe('policies of one endpoint', () => {
  it('decide in order, and those without an order last', () => {
    const deny = [{ action: 'Deny' }];
    const view = viewOf(
      policy('a-last', { ingress: allowAll }),
      policy('second', { order: 2, ingress: allowAll }),
      policy('first', { order: 1, ingress: deny }),
    );
    expect(atWeb(view)).toMatchObject({
      verdict: 'deny',
      decision: { kind: 'rule', tier: 'default', policy: 'NetworkPolicy shop/first', index: 0 },
    });
  });

  it('decide by name when they have the same order', () => {
    const view = viewOf(
      policy('b', { order: 1, ingress: [{ action: 'Deny' }] }),
      policy('a', { order: 1, ingress: allowAll }),
    );
    expect(atWeb(view).decision).toMatchObject({ policy: 'NetworkPolicy shop/a' });
  });

  it('continue with the next policy when no rule matches, and deny at the end', () => {
    const rule = [{ action: 'Allow', protocol: 'UDP' }];
    const view = viewOf(policy('a', { ingress: rule }), policy('b', { ingress: rule }));
    const verdict = atWeb(view);
    expect(verdict.decision).toEqual({
      kind: 'tier default',
      tier: 'default',
      policies: ['NetworkPolicy shop/a', 'NetworkPolicy shop/b'],
    });
    expect(verdict.considered.map(({ policy: id, action }) => [id, action])).toEqual([
      ['NetworkPolicy shop/a', undefined],
      ['NetworkPolicy shop/b', undefined],
    ]);
    expect(atWeb(view, { protocol: 17 }).verdict).toBe('allow');
  });

  it('go on to the profiles after Pass, past all other policies', () => {
    const view = viewOf(
      policy('a', { order: 1, ingress: [{ action: 'Pass' }] }),
      policy('b', { order: 2, ingress: [{ action: 'Deny' }] }),
    );
    expect(atWeb(view)).toMatchObject({
      verdict: 'allow',
      decision: { kind: 'profile rule', profile: 'kns.shop', index: 0 },
    });
  });

  it('note Log rules that match and continue', () => {
    const view = viewOf(
      policy('a', { ingress: [{ action: 'Log' }, { action: 'Log', protocol: 'UDP' }, { action: 'Deny' }] }),
    );
    expect(atWeb(view).considered).toMatchObject([{ action: 'Deny', index: 2, logs: [0] }]);
  });

  it('leave it to profiles when none applies, and deny without profiles', () => {
    const view = viewOf(policy('other', { selector: "app == 'db'", ingress: [] }));
    expect(atWeb(view).decision).toMatchObject({ kind: 'profile rule', profile: 'kns.shop' });
    view.apply([{ kind: 'resource', which: { kind: 'Profile', name: 'kns.shop' } }]);
    expect(atWeb(view)).toMatchObject({ verdict: 'deny', decision: { kind: 'no profile' } });
  });

  it('let neighbour discovery pass from a pod to its node and on the link, and nowhere else', () => {
    const view = viewOf(policy('a', { types: ['Ingress', 'Egress'], ingress: [], egress: [] }));
    const pod = view.endpoints.get('pod shop/web')!;
    const source = parseAddress('fd00:65::1');
    const sent = (to: string, type: number, host?: string): string => {
      const destination = parseAddress(to);
      const message = { source, destination, protocol: 58, icmp: { type, code: 0 } };
      return evaluateConnection(view, {
        source: { address: source, pod },
        destination: { address: destination, ...(host === undefined ? {} : { host }) },
        packet: message,
        endpointToHost: 'Accept',
      }).verdict;
    };
    expect([sent('fe80::1', 135), sent('ff02::16', 143), sent('2001:db8::1', 136, pod.node)]).toEqual(ALL_PASS);
    expect([sent('fe80::1', 128), sent('2001:db8::1', 135), sent('2001:db8::1', 136, 'other')]).toEqual(NONE_PASS);
    const message = { source, destination: source, protocol: 58, sourcePort: undefined, destinationPort: undefined };
    expect(atWeb(view, { ...message, icmp: { type: 135, code: 0 } }).verdict).toBe('deny');
  });
});

describe('a rule', () => {
  const only = (rule: object): PolicyState => viewOf(policy('a', { ingress: [{ action: 'Allow', ...rule }] }));
  const isAllowed = (rule: object, more: Partial<Packet> = {}): boolean => atWeb(only(rule), more).verdict === 'allow';

  it.each<[string, object, Partial<Packet>, boolean]>([
    ['source.selector', { source: { selector: "app == 'db'" } }, {}, true],
    ['source.selector of another', { source: { selector: "app == 'web'" } }, {}, false],
    ['source.notSelector', { source: { notSelector: "app == 'db'" } }, {}, false],
    ['source.notSelector of another', { source: { notSelector: "app == 'web'" } }, {}, true],
    [
      'source.notSelector means the own namespace',
      { source: { notSelector: "app == 'web'" } },
      { source: OUT! },
      false,
    ],
    ['source.nets', { source: { nets: ['192.0.2.0/24'] } }, { source: OUT! }, true],
    ['source.notNets', { source: { notNets: ['192.0.2.0/24'] } }, { source: OUT! }, false],
    ['namespaceSelector', { source: { namespaceSelector: "team == 'a'" } }, {}, true],
    ['namespaceSelector of others', { source: { namespaceSelector: "team == 'b'" } }, {}, false],
    ['namespaceSelector all()', { source: { namespaceSelector: 'all()' } }, { source: OUT! }, false],
    ['namespaceSelector global()', { source: { namespaceSelector: 'global()' } }, {}, false],
    ['serviceAccounts.names', { source: { serviceAccounts: { names: ['default'] } } }, {}, true],
    ['serviceAccounts.names of others', { source: { serviceAccounts: { names: ['seller'] } } }, {}, false],
    ['serviceAccounts.selector', { destination: { serviceAccounts: { selector: "role == 'sales'" } } }, {}, true],
    ['serviceAccounts.selector of others', { source: { serviceAccounts: { selector: "role == 'sales'" } } }, {}, false],
    ['protocol by number', { protocol: 47 }, { protocol: 47 }, true],
    ['notProtocol', { notProtocol: 'TCP' }, {}, false],
    ['notProtocol of another', { notProtocol: 'UDP' }, {}, true],
    ['a range of ports', { protocol: 'TCP', destination: { ports: ['79:81'] } }, {}, true],
    ['a named port', { protocol: 'TCP', destination: { ports: ['http'] } }, {}, true],
    [
      'a named port of another protocol',
      { protocol: 'UDP', destination: { ports: ['http'] } },
      { protocol: 17 },
      false,
    ],
    ['notPorts', { protocol: 'TCP', destination: { notPorts: ['http'] } }, {}, false],
    ['source.ports', { protocol: 'TCP', source: { ports: [40_000] } }, {}, true],
    ['ipVersion', { ipVersion: 6 }, {}, false],
    ['icmp', { protocol: 'ICMP', icmp: { type: 8 } }, { protocol: 1, icmp: { type: 8, code: 0 } }, true],
    [
      'icmp with code',
      { protocol: 'ICMP', icmp: { type: 8, code: 1 } },
      { protocol: 1, icmp: { type: 8, code: 0 } },
      false,
    ],
    ['notICMP', { protocol: 'ICMP', notICMP: { type: 8 } }, { protocol: 1, icmp: { type: 8, code: 0 } }, false],
  ])('matches by %s', (_, rule, more, expected) => {
    expect(isAllowed(rule, more)).toBe(expected);
  });

  it('for ingress matches clients at the addresses of a service, with any port and without ports', () => {
    const view = only({ source: { services: { name: 'db' } } });
    const value = { namespace: 'shop', name: 'db', addresses: [DB!], ports: [] };
    view.apply([{ kind: 'service', key: 's', value }]);
    expect(atWeb(view).verdict).toBe('allow');
    expect(atWeb(view, { source: OUT! }).verdict).toBe('deny');
  });

  it('for egress matches addresses and ports of a service', () => {
    const spec = { types: ['Egress'], egress: [{ action: 'Allow', destination: { services: { name: 'db' } } }] };
    const view = viewOf(policy('a', spec));
    const ports = [{ protocol: 6, port: 5432 }];
    const value = { namespace: 'shop', name: 'db', addresses: [DB!], ports };
    view.apply([{ kind: 'service', key: 's', value }]);
    const endpoint = view.endpoints.get('pod shop/web')!;
    const to = (destinationPort: number): string =>
      evaluateEnd(view, {
        endpoint,
        direction: 'egress',
        packet: packet({ source: WEB!, destination: DB!, destinationPort }),
      }).verdict;
    expect([to(5432), to(80)]).toEqual(['allow', 'deny']);
  });

  it('finds network sets: those of a namespace only from their namespace', () => {
    const labels = { role: 'partner' };
    const sets = [
      resource('NetworkSet', 'near', { nets: ['192.0.2.0/30'] }, { namespace: 'shop', labels }),
      resource('NetworkSet', 'far', { nets: ['192.0.2.4/30'] }, { namespace: 'elsewhere', labels }),
      resource('GlobalNetworkSet', 'all', { nets: ['192.0.2.8/30'] }, { labels }),
    ];
    const from = (text: string, rule: object, kind: 'NetworkPolicy' | 'GlobalNetworkPolicy'): string => {
      const spec = { ingress: [{ action: 'Allow', source: rule }] };
      const own = kind === 'NetworkPolicy' ? policy('a', spec) : resource(kind, 'a', spec);
      return atWeb(viewOf(own, ...sets), { source: parseAddress(text) }).verdict;
    };
    const partner = { selector: "role == 'partner'" };
    const globals = { ...partner, namespaceSelector: 'global()' };
    const texts = ['192.0.2.1', '192.0.2.5', '192.0.2.9'];
    expect(texts.map((text) => from(text, partner, 'NetworkPolicy'))).toEqual(['allow', 'deny', 'deny']);
    expect(texts.map((text) => from(text, globals, 'NetworkPolicy'))).toEqual(['deny', 'deny', 'allow']);
    expect(texts.map((text) => from(text, partner, 'GlobalNetworkPolicy'))).toEqual(['allow', 'allow', 'allow']);
  });
});

describe('a host endpoint', () => {
  const host = (...resources: readonly AnyResource[]): PolicyState =>
    viewOf(resource('HostEndpoint', 'eth0', { node: 'n1', interfaceName: 'eth0' }), ...resources);
  const said = (view: PolicyState, path: PacketPath): string => {
    const endpoint = view.endpoints.get('host eth0')!;
    const { verdict, decision } = evaluateEnd(view, { endpoint, direction: 'ingress', packet: packet(), path });
    return `${verdict}: ${decision.kind}`;
  };
  const global = (name: string, spec: object): AnyResource => resource('GlobalNetworkPolicy', name, spec);
  const nothing = [{ action: 'Allow', protocol: 'UDP' }];

  it('drops what is for the node and lets forwarded packets pass when nothing applies', () => {
    const view = host();
    const paths = ['local', 'forwarded', 'preDNAT', 'untracked'] as const;
    expect(paths.map((path) => said(view, path))).toEqual([
      'deny: no profile',
      'allow: no policy',
      'allow: no policy',
      'allow: no policy',
    ]);
  });

  it('judges forwarded packets by policies with applyOnForward alone', () => {
    const local = host(global('a', { ingress: [{ action: 'Deny' }] }));
    expect([said(local, 'local'), said(local, 'forwarded')]).toEqual(['deny: rule', 'allow: no policy']);
    const forward = host(global('a', { applyOnForward: true, ingress: nothing }));
    expect([said(forward, 'local'), said(forward, 'forwarded')]).toEqual(['deny: tier default', 'deny: tier default']);
  });

  it('applies preDNAT and untracked policies on their own paths, without a default', () => {
    const view = host(
      global('before', { preDNAT: true, applyOnForward: true, ingress: [{ action: 'Deny' }] }),
      global('raw', { doNotTrack: true, applyOnForward: true, ingress: nothing }),
    );
    expect([said(view, 'preDNAT'), said(view, 'untracked'), said(view, 'local')]).toEqual([
      'deny: rule',
      'allow: no policy',
      'deny: no profile',
    ]);
  });

  it('is not selected by policies of a namespace, nor pods by those before translation', () => {
    const view = host(
      policy('a', { ingress: [] }),
      global('before', { preDNAT: true, applyOnForward: true, ingress: [{ action: 'Deny' }] }),
    );
    expect(said(view, 'local')).toBe('deny: no profile');
    expect(atWeb(view).considered.map(({ policy: id }) => id)).toEqual(['NetworkPolicy shop/a']);
  });
});

describe('a connection', () => {
  const closed = (type: 'Ingress' | 'Egress'): PolicyState =>
    viewOf(policy('a', { selector: "app == 'web'", types: [type] }));
  const toWeb = { packet: packet(), endpointToHost: 'Accept' } as const;

  it('needs egress of the source and ingress of the destination', () => {
    for (const type of ['Ingress', 'Egress'] as const) {
      const view = closed(type);
      const [source, destination] = [endAt(view, DB!), endAt(view, WEB!)];
      const back = { source: destination, destination: source, packet: packet({ source: WEB!, destination: DB! }) };
      const verdicts = [
        evaluateConnection(view, { ...toWeb, source, destination }).verdict,
        evaluateConnection(view, { ...toWeb, ...back }).verdict,
      ];
      expect(verdicts).toEqual(type === 'Ingress' ? ['deny', 'allow'] : ['allow', 'deny']);
    }
  });

  it('from the own node of a pod is allowed, and from another node judged', () => {
    const view = closed('Ingress');
    const destination = endAt(view, WEB!);
    const from = (host: string): string =>
      evaluateConnection(view, { ...toWeb, source: { address: OUT!, host }, destination }).verdict;
    expect([from('n1'), from('n2')]).toEqual(['allow', 'deny']);
  });

  it('from a pod to its own node needs egress, and then the action for hosts', () => {
    const to = (view: PolicyState, endpointToHost: 'Accept' | 'Drop'): unknown => {
      const source = endAt(view, WEB!);
      const { verdict, isRefusedByHost } = evaluateConnection(view, {
        source,
        destination: { address: OUT!, host: 'n1' },
        packet: packet({ source: WEB!, destination: OUT! }),
        endpointToHost,
      });
      return [verdict, isRefusedByHost];
    };
    expect([to(viewOf(), 'Accept'), to(viewOf(), 'Drop')]).toEqual([
      ['allow', false],
      ['deny', true],
    ]);
    expect(to(closed('Egress'), 'Accept')).toEqual(['deny', false]);
  });
});
