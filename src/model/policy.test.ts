import { describe, expect, it } from 'vitest';
import { problemLine } from '../base/problem.ts';
import { decodeResource, decodeStoredResource } from './decode-resource.ts';
import { API_VERSION } from './resource.ts';

const globalPolicy = (spec: object): object => ({
  apiVersion: API_VERSION,
  kind: 'GlobalNetworkPolicy',
  metadata: { name: 'p' },
  spec,
});
const policy = (spec: object): object => ({
  apiVersion: API_VERSION,
  kind: 'NetworkPolicy',
  metadata: { name: 'p', namespace: 'shop' },
  spec,
});

function problemsOf(raw: unknown): string[] {
  const decoded = decodeResource(raw);
  return 'problems' in decoded ? decoded.problems.map(problemLine) : [];
}

const LOG_AND_ALLOW = [{ action: 'Log' }, { action: 'Allow' }];

describe('a policy', () => {
  it('stays as the upgrade procedure has it when it is decoded', () => {
    const spec = {
      selector: 'has(netplug/host-endpoint-upgrade)',
      types: ['Ingress', 'Egress'],
      ingress: LOG_AND_ALLOW,
      egress: LOG_AND_ALLOW,
    };
    expect(decodeResource(globalPolicy(spec))).toEqual({ resource: globalPolicy(spec) });
  });

  it.each([
    [{}, ['Ingress']],
    [{ types: [] }, ['Ingress']],
    [{ ingress: LOG_AND_ALLOW }, ['Ingress']],
    [{ ingress: [], egress: LOG_AND_ALLOW }, ['Egress']],
    [{ ingress: LOG_AND_ALLOW, egress: LOG_AND_ALLOW }, ['Ingress', 'Egress']],
    [{ types: ['Egress'] }, ['Egress']],
  ])('with %j has the types %j', (spec, types) => {
    expect(decodeResource(policy(spec))).toMatchObject({ resource: { spec: { types, selector: 'all()' } } });
  });

  it.each([
    [
      { types: ['Ingress', 'Ingress'] },
      'spec.types: found ["Ingress","Ingress"] (array), allowed is each type at most',
    ],
    [{ types: ['ingress'] }, 'did you mean "Ingress"?'],
    [{ selector: 'global()' }, 'spec.selector: found "global()" (string), allowed is a selector without global()'],
    [{ selector: 'a = 1' }, 'spec.selector: found'],
    [{ serviceAccountSelector: '' }, 'spec.serviceAccountSelector: found ""'],
    [{ order: '7' }, 'spec.order: found "7" (string), allowed is a number'],
    [{ performanceHints: ['Fast'] }, 'spec.performanceHints[0]'],
    [{ doNotTrack: true, preDNAT: true, applyOnForward: true }, 'spec.preDNAT: excludes doNotTrack'],
    [{ doNotTrack: true, staged: true, applyOnForward: true }, 'spec.staged: excludes doNotTrack'],
    [{ preDNAT: true, staged: true, applyOnForward: true }, 'spec.staged: excludes preDNAT'],
    [{ doNotTrack: true }, 'spec.doNotTrack: needs applyOnForward: true'],
    [{ preDNAT: true, applyOnForward: false }, 'spec.preDNAT: needs applyOnForward: true'],
    [{ preDNAT: true, applyOnForward: true, types: ['Egress'] }, 'spec.types: excludes "Egress"'],
    [{ preDNAT: true, applyOnForward: true, egress: LOG_AND_ALLOW }, 'spec.egress: is not allowed'],
  ])('is refused with %j', (spec, text) => {
    expect(problemsOf(globalPolicy(spec)).join('\n')).toContain(text);
  });

  it.each(['doNotTrack', 'preDNAT', 'applyOnForward', 'namespaceSelector'])('of a namespace has no %s', (field) => {
    expect(problemsOf(policy({ [field]: true }))).toEqual([`spec.${field}: is not a known field`]);
  });
});

describe('a rule', () => {
  const to = (destination: object, more: object = {}): object => ({ action: 'Allow', destination, ...more });

  it.each([
    [to({ ports: [80, '8080:8090', 'web'] }, { protocol: 'TCP' })],
    [to({ notPorts: [53] }, { protocol: 17 })],
    [{ action: 'Deny', protocol: 'ICMP', icmp: { type: 8, code: 0 } }],
    [{ action: 'Deny', protocol: 58, notICMP: { type: 128 }, ipVersion: 6 }],
    [to({ nets: ['10.0.0.0/8', '192.0.2.1'], notNets: ['10.1.0.0/16'] }, { ipVersion: 4 })],
    [to({ services: { name: 'db', namespace: 'shop' } }, { protocol: 'TCP' })],
    [to({ namespaceSelector: 'global() || has(team)', serviceAccounts: { names: ['a'], selector: 'has(b)' } })],
    [{ action: 'Pass', notProtocol: 'UDPLite', metadata: { annotations: { why: 'because' } } }],
  ])('for egress may be %j', (rule) => {
    expect(problemsOf(policy({ egress: [rule] }))).toEqual([]);
  });

  it.each([
    [{}, 'egress[0].action: missing'],
    [{ action: 'allow' }, 'did you mean "Allow"?'],
    [{ action: 'Deny', ipVersion: 5 }, 'egress[0].ipVersion: found 5'],
    [{ action: 'Deny', protocol: 'tcp' }, 'did you mean "TCP"?'],
    [{ action: 'Deny', protocol: 0 }, 'egress[0].protocol: found 0'],
    [
      { action: 'Deny', protocol: 256 },
      'egress[0].protocol: found 256 (number), allowed is a whole number from 1 to 255',
    ],
    [to({ ports: [80] }), 'egress[0].destination.ports: needs protocol "TCP", "UDP" or "SCTP"'],
    [to({ ports: [80] }, { protocol: 'UDPLite' }), 'egress[0].destination.ports: needs protocol'],
    [to({}, { source: { notPorts: [80] } }), 'egress[0].source.notPorts: needs protocol'],
    [to({ ports: ['90:80'] }, { protocol: 'TCP' }), 'egress[0].destination.ports[0]: found "90:80"'],
    [to({ ports: ['80'] }, { protocol: 'TCP' }), 'a port from 1 to 65535, a range'],
    [to({ ports: [0] }, { protocol: 'TCP' }), 'found 0'],
    [to({ ports: ['1:65536'] }, { protocol: 'TCP' }), 'found "1:65536"'],
    [to({ nets: [] }), 'at least one, or leave the field out'],
    [to({ net: ['10.0.0.0/8'] }), 'egress[0].destination.net: is not a known field (did you mean "nets"?)'],
    [to({ selector: '' }), 'leave the field out when labels do not matter'],
    [to({ selector: 'global()' }), 'a selector without global()'],
    [to({ nets: ['10.0.0.0/8', 'fd00::/8'] }), 'nets[1]: is for IPv6, while destination.nets[0] is for IPv4'],
    [to({ nets: ['fd00::/8'] }, { ipVersion: 4 }), 'destination.nets[0]: is for IPv6, while ipVersion is for IPv4'],
    [to({ nets: ['fd00::/8'] }, { protocol: 'ICMP' }), 'nets[0]: is for IPv6, while protocol is for IPv4'],
    [{ action: 'Deny', icmp: { type: 8 } }, 'egress[0].icmp: needs protocol "ICMP" or "ICMPv6"'],
    [{ action: 'Deny', protocol: 'TCP', notICMP: { type: 8 } }, 'egress[0].notICMP: needs protocol'],
    [{ action: 'Deny', protocol: 'ICMP', icmp: { code: 0 } }, 'egress[0].icmp.type: missing'],
    [{ action: 'Deny', protocol: 'ICMP', icmp: { type: 255 } }, 'egress[0].icmp.type: found 255'],
    [to({ services: { name: 'db' }, nets: ['10.0.0.0/8'] }), 'destination.nets: is not allowed beside services'],
    [to({ services: { name: 'db' }, ports: [80] }, { protocol: 'TCP' }), 'destination.ports: is not allowed beside'],
    [to({}, { source: { services: { name: 'db' } } }), 'in an egress rule it belongs in the destination'],
    [to({ services: {} }), 'destination.services.name: missing'],
    [to({}, { http: { methods: ['GET'] } }), 'egress[0].http: is not allowed: it is for ingress rules'],
  ])('for egress is refused as %j', (rule, text) => {
    expect(problemsOf(policy({ egress: [rule] })).join('\n')).toContain(text);
  });

  it.each<[object, readonly string[]]>([
    [{ action: 'Allow', source: { services: { name: 'db' } } }, []],
    [{ action: 'Allow', http: { methods: ['GET'], paths: [{ exact: '/' }, { prefix: '/api' }] } }, []],
    [{ action: 'Allow', protocol: 'TCP', http: { methods: ['GET'] } }, []],
    [{ action: 'Deny', http: { methods: ['GET'] } }, ['spec.ingress[0].http: is not allowed: it is for rules']],
    [{ action: 'Allow', protocol: 'UDP', http: { methods: ['GET'] } }, ['spec.ingress[0].http: needs protocol "TCP"']],
    [{ action: 'Allow', http: { methods: ['GET', 'GET'] } }, ['each method at most once']],
    [{ action: 'Allow', http: { methods: ['G ET'] } }, ['a method such as "GET", or "*"']],
    [
      { action: 'Allow', http: { methods: Array.from({ length: 21 }, (_, at) => `M${String(at)}`) } },
      ['at most 20 methods'],
    ],
    ...['items', '/a?b', '/a%20', '/a/../b', '//', '/a b', '/;', `/${'a'.repeat(1024)}`].map(
      (path): [object, readonly string[]] => [
        { action: 'Allow', http: { paths: [{ prefix: path }] } },
        ['a path of at most 1024'],
      ],
    ),
    [{ action: 'Allow', http: { paths: [{ exact: '/', prefix: '/' }] } }, ['an object with exact or prefix, not both']],
    [
      { action: 'Allow', destination: { services: { name: 'db' } } },
      ['spec.ingress[0].destination.services: is not allowed: in an ingress rule it belongs in the source'],
    ],
  ])('for ingress as %j has the problems %j', (rule, texts) => {
    const lines = problemsOf(policy({ ingress: [rule] }));
    expect(lines).toHaveLength(texts.length);
    for (const text of texts) expect(lines.join('\n')).toContain(text);
  });

  it.each([
    ['source: []', { action: 'Allow', source: [] }, 'source'],
    ['source: ["10.0.0.0/8"]', { action: 'Allow', source: ['10.0.0.0/8'] }, 'source'],
    ['serviceAccounts: []', { action: 'Allow', source: { serviceAccounts: [] } }, 'source.serviceAccounts'],
  ])('is refused with a list in place of an object: %s', (_, broken, field) => {
    const policy = {
      apiVersion: 'netplug.io/v3',
      kind: 'NetworkPolicy',
      metadata: { name: 'web' },
      spec: { ingress: [broken] },
    };
    expect(decodeResource(policy)).toMatchObject({
      problems: [
        { path: `spec.ingress[0].${field}`, message: expect.stringMatching(/\(array\), allowed is an object/) },
      ],
    });
    expect(decodeStoredResource(policy)).toMatch(`spec.ingress[0].${field}`);
  });

  it('may apply the longest label of a namespace, also where netplug gives labels of that name', () => {
    const labelsToApply = { [`pcns.pcown.pcown.${'a'.repeat(57)}`]: 'x', 'pcns.pcown.netplug/name': 'x' };
    expect(
      problemsOf({ apiVersion: API_VERSION, kind: 'Profile', metadata: { name: 'a' }, spec: { labelsToApply } }),
    ).toEqual([]);
  });

  it('of a profile is checked in the same way', () => {
    const spec = { ingress: [{ action: 'Allow', source: { ports: [1] } }], labelsToApply: { '-': 'x' } };
    const raw = { apiVersion: API_VERSION, kind: 'Profile', metadata: { name: 'p' }, spec };
    expect(problemsOf(raw).join('\n')).toContain('spec.labelsToApply');
    expect(problemsOf({ ...raw, spec: { ingress: spec.ingress } })).toEqual([
      'spec.ingress[0].source.ports: needs protocol "TCP", "UDP" or "SCTP" in the same rule',
    ]);
  });
});
