import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { FilterChain, FilterSet, FilterTable } from '../../dataplane/policy-filter.ts';
import { type FilterPacket, judgePacket } from '../../../test/support/memory/judge-packet.ts';
import { parseAddress } from '../../net/address.ts';
import { change, globalPolicy, hostEndpoint, podOf } from '../../../test/support/policy-arbitraries.ts';
import { PolicyCluster } from '../../../test/support/policy-cluster.ts';
import type { HostLinks, RulesetSettings } from './policy-ruleset.ts';
import { RulesetCompiler } from './ruleset-compiler.ts';
import { noTouches } from '../touches.ts';

const SETTINGS: RulesetSettings = { node: 'node-1', logPrefix: 'netplug-packet', endpointToHostAction: 'Accept' };

const facts = fc.option(
  fc.record({
    interfaces: fc.subarray([
      { name: 'eth0', addresses: ['192.0.2.1'] },
      { name: 'eth2', addresses: ['192.0.2.1'] },
    ]),
    tunnels: fc.subarray([{ protocol: 4, port: undefined }]),
    servers: fc.subarray([{ address: parseAddress('192.0.2.9'), protocol: 6, port: 8443 }]),
  }),
  { nil: undefined, freq: 4 },
);

describe('incremental compilation', () => {
  it('equals a fresh one after any changes, but for chains that nothing leads to until they are dropped', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(change, facts, fc.boolean()), { minLength: 1, maxLength: 40 }), (changes) => {
        const cluster = new PolicyCluster();
        const compiler = new RulesetCompiler(SETTINGS);
        compiler.compile(cluster.state);
        let known: HostLinks | undefined;
        for (const [apply, found, drops] of changes) {
          if (found !== undefined) compiler.useHost(found);
          known = found ?? known;
          const incremental = compiler.compile(cluster.state, apply(cluster));
          const anew = new RulesetCompiler(SETTINGS);
          if (known !== undefined) anew.useHost(known);
          const fresh = anew.compile(cluster.state);
          expect(plain(withoutOthers(incremental.table, fresh.table))).toEqual(plain(fresh.table));
          expect(new Map([...incremental.origins, ...fresh.origins])).toEqual(incremental.origins);
          if (!drops) continue;
          compiler.dropUnused();
          compiler.dropUnused();
          const dropped = compiler.compile(cluster.state, { ...noTouches(), selectors: new Map() });
          expect(plain(dropped.table)).toEqual(plain(fresh.table));
          expect(new Map([...dropped.origins].toSorted())).toEqual(new Map([...fresh.origins].toSorted()));
        }
      }),
      { numRuns: 50 },
    );
  });

  it('keeps the chains and sets of a pod that is gone for the next one, until they are dropped', () => {
    const cluster = new PolicyCluster();
    cluster.putNamespace('x');
    cluster.put(globalPolicy('g', { source: { selector: "role == 'b'" } }));
    const compiler = new RulesetCompiler(SETTINGS);
    const pod = podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true });
    const none = compiler.compile(cluster.state, undefined).table;
    const first = compiler.compile(cluster.state, cluster.putPod(pod)).table;
    const gone = compiler.compile(cluster.state, cluster.removePod(pod)).table;
    expect([...first.chains.keys()].filter((name) => !gone.chains.has(name))).toEqual([
      expect.stringMatching(/^egress-npl/),
      expect.stringMatching(/^ingress-npl/),
    ]);
    const next = compiler.compile(cluster.state, cluster.putPod(pod)).table;
    const isMade = ([name, chain]: readonly [string, FilterChain]): boolean => gone.chains.get(name) !== chain;
    expect([...next.chains].filter(isMade)).toHaveLength(2);
    compiler.compile(cluster.state, cluster.removePod(pod));
    compiler.dropUnused();
    expect(compiler.dropUnused()).toBe(true);
    const dropped = compiler.compile(cluster.state, { ...noTouches(), selectors: new Map() }).table;
    expect(plain(dropped)).toEqual(plain(none));
    expect(compiler.dropUnused()).toBe(false);
  });

  it('keeps the objects of chains and sets that a change does not affect', () => {
    const cluster = new PolicyCluster();
    cluster.putNamespace('x');
    cluster.putPod(podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true }));
    cluster.put(globalPolicy('g', { source: { selector: "role == 'b'" } }));
    const compiler = new RulesetCompiler(SETTINGS);
    const before = compiler.compile(cluster.state).table;
    const touched = cluster.putPod(podOf({ namespace: 'x', ordinal: 2, role: 'b', isLocal: false }));
    const after = compiler.compile(cluster.state, touched).table;
    expect([...after.chains].filter(([name, chain]) => before.chains.get(name) !== chain)).toEqual([]);
    const changed = [...after.sets].filter(([name, set]) => before.sets.get(name) !== set);
    expect(changed.map(([, set]) => [...set.elements])).toEqual([['10.65.0.2'], ['fd00:65::2']]);
  });

  it('shares the chains of pods to which the same policies apply', () => {
    const cluster = new PolicyCluster();
    cluster.putNamespace('x');
    cluster.put(globalPolicy('g', {}));
    for (const ordinal of [1, 2, 3]) cluster.putPod(podOf({ namespace: 'x', ordinal, role: 'a', isLocal: true }));
    const { chains } = new RulesetCompiler(SETTINGS).compile(cluster.state).table;
    const names = [...chains.keys()].map((name) => name.split('-')[0]);
    expect(names.filter((name) => name === 'tier')).toHaveLength(1);
    expect(names.filter((name) => name === 'ingress')).toHaveLength(3);
  });
});

describe('closed policies and profiles', () => {
  it('equal a fresh compilation, and are closed until their records change', () => {
    const cluster = new PolicyCluster();
    cluster.putNamespace('x');
    cluster.putPod(podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true }));
    cluster.put(globalPolicy('g', { source: { selector: "role == 'b'" } }));
    const compiler = new RulesetCompiler(SETTINGS);
    const { table } = compiler.compile(cluster.state);
    const owners = [
      { kind: 'policy', name: 'GlobalNetworkPolicy g' },
      { kind: 'profile', name: 'kns.x' },
    ] as const;
    for (const owner of owners) {
      const touched = cluster.state.close(owner, 'it is odd');
      const closed = compiler.compile(cluster.state, touched);
      expect(plain(closed.table)).toEqual(plain(new RulesetCompiler(SETTINGS).compile(cluster.state).table));
      expect(cluster.state.close(owner, 'it is odd')).toBeUndefined();
    }
    expect(cluster.state.close({ kind: 'policy', name: 'none' }, '')).toBeUndefined();
    expect([...cluster.state.problems.values()].flat()).toEqual(
      owners.map(({ name }) => expect.stringContaining(name) as string),
    );
    const touches = [
      cluster.put(globalPolicy('g', { source: { selector: "role == 'c'" } })),
      cluster.putNamespace('x', { team: 'red' }),
    ];
    for (const touched of touches) compiler.compile(cluster.state, touched);
    expect(cluster.state.problems.size).toBe(0);
    const touched = cluster.put(globalPolicy('g', { source: { selector: "role == 'b'" } }));
    expect(plain(compiler.compile(cluster.state, touched).table)).toEqual(plain(table));
  });
});

describe('the compiled rules', () => {
  it('drop packets of a pod interface without a known endpoint, in both directions, and no others', () => {
    const { table } = new RulesetCompiler(SETTINGS).compile(new PolicyCluster().state);
    const packet = {
      source: parseAddress('10.65.0.1'),
      destination: parseAddress('10.65.0.2'),
      protocol: 17,
      state: 'new',
      isToHost: false,
    } as const;
    const verdict = (inInterface: string, outInterface: string): string =>
      judgePacket(table, 'forward', { ...packet, inInterface, outInterface }).verdict;
    expect([verdict('nplx', 'eth0'), verdict('eth0', 'nplx'), verdict('eth0', 'eth1')]).toEqual([
      'drop',
      'drop',
      'accept',
    ]);
  });

  it('close unknown interfaces of other plugins by their prefixes, and leave those alone that are not of pods', () => {
    const podLinks = { prefixes: ['npl', 'eni', 'gke'], others: ['eni9'] };
    const cluster = new PolicyCluster();
    cluster.putNamespace('shop');
    const known = { namespace: 'shop', name: 'a', addresses: ['10.65.0.1'], interfaceName: 'eni1' };
    cluster.putPod(known);
    const { table } = new RulesetCompiler({ ...SETTINGS, podLinks, endpointToHostAction: 'Drop' }).compile(
      cluster.state,
    );
    const packet = {
      source: parseAddress('10.65.0.1'),
      destination: parseAddress('10.65.0.2'),
      protocol: 17,
      state: 'new',
    } as const;
    const forwarded = (inInterface: string, outInterface: string): string =>
      judgePacket(table, 'forward', { ...packet, isToHost: false, inInterface, outInterface }).verdict;
    for (const unknown of ['nplx', 'enix', 'gkex'])
      expect([unknown, forwarded(unknown, 'eth0'), forwarded('eth0', unknown)]).toEqual([unknown, 'drop', 'drop']);
    for (const open of ['eni1', 'eni9'])
      expect([open, forwarded(open, 'eth0'), forwarded('eth0', open)]).toEqual([open, 'accept', 'accept']);
    expect(forwarded('eni9', 'gkex')).toBe('drop');
    const toHost = (inInterface: string): string =>
      judgePacket(table, 'input', { ...packet, isToHost: true, inInterface }).verdict;
    expect(['enix', 'eni1', 'eni9', 'eth0'].map(toHost)).toEqual(['drop', 'drop', 'accept', 'accept']);
  });

  it('let host endpoints for all interfaces decide at those that are not of pods, and at no others with a prefix', () => {
    const podLinks = { prefixes: ['npl', 'eni'], others: ['eni9'] };
    const cluster = new PolicyCluster();
    cluster.put(hostEndpoint('h', { interfaceName: '*' }));
    const compiler = new RulesetCompiler({ ...SETTINGS, podLinks });
    compiler.useHost({ interfaces: [{ name: 'eni9', addresses: [] }], tunnels: [], servers: [] });
    const { table } = compiler.compile(cluster.state);
    const toNode = (outInterface: string): string =>
      judgePacket(table, 'output', {
        source: parseAddress('192.0.2.1'),
        destination: parseAddress('10.65.0.2'),
        protocol: 17,
        state: 'new',
        isToHost: false,
        inInterface: '',
        outInterface,
      }).verdict;
    expect(['eni1', 'npl1', 'eni9', 'eth0'].map(toNode)).toEqual(['accept', 'accept', 'drop', 'drop']);
  });

  it('let the node reach a pod when a host endpoint names the interface of the pod', () => {
    const cluster = new PolicyCluster();
    cluster.put(hostEndpoint('h', { interfaceName: 'npl1' }));
    cluster.put(hostEndpoint('i', { interfaceName: 'eth0' }));
    const compiler = new RulesetCompiler(SETTINGS);
    compiler.useHost({ interfaces: [], tunnels: [], servers: [] });
    const { table } = compiler.compile(cluster.state);
    const verdict = (outInterface: string): string =>
      judgePacket(table, 'output', {
        source: parseAddress('192.0.2.1'),
        destination: parseAddress('10.65.0.1'),
        protocol: 17,
        outInterface,
        state: 'new',
        isToHost: false,
      }).verdict;
    expect([verdict('npl1'), verdict('eth0')]).toEqual(['accept', 'drop']);
  });

  it('log with the prefix of the node, and go on to the next rule', () => {
    const cluster = new PolicyCluster();
    cluster.putNamespace('x');
    cluster.putPod(podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true }));
    cluster.put(globalPolicy('g', {}, { ingress: [{ action: 'Log' }, { action: 'Deny' }] }));
    const { table, origins } = new RulesetCompiler(SETTINGS).compile(cluster.state);
    const judged = judgePacket(table, 'forward', {
      source: parseAddress('10.9.9.9'),
      destination: parseAddress('10.65.0.1'),
      protocol: 47,
      outInterface: 'npl1',
      state: 'new',
      isToHost: false,
    });
    expect(judged).toMatchObject({ verdict: 'drop', logged: ['netplug-packet: '] });
    const origin = { kind: 'policy', name: 'GlobalNetworkPolicy g', direction: 'ingress', isStaged: false };
    expect(judged.reported.map(({ prefix }) => origins.get(prefix))).toEqual([
      { ...origin, index: 0, rule: expect.objectContaining({ action: 'Log' }) },
      { ...origin, index: 1, rule: expect.objectContaining({ action: 'Deny' }) },
    ]);
  });

  it.each([
    ['let pass', { staged: true }, 'eth0', 'accept'],
    ['drop', {}, 'eth0', 'drop'],
    ['let pass', {}, 'eth1', 'accept'],
  ])('%s forwarded packets of no connection where a policy is %j and they arrive at %s', (_, spec, at, expected) => {
    const cluster = new PolicyCluster();
    cluster.put(hostEndpoint('h', { interfaceName: 'eth0' }, { role: 'a' }));
    cluster.put(hostEndpoint('without', { interfaceName: 'eth1' }, { role: 'b' }));
    cluster.put(
      globalPolicy('g', {}, { selector: "role == 'a'", applyOnForward: true, ingress: [{ action: 'Allow' }], ...spec }),
    );
    const compiler = new RulesetCompiler(SETTINGS);
    compiler.useHost({ interfaces: [], tunnels: [], servers: [] });
    const { table } = compiler.compile(cluster.state);
    const ended: FilterSet = { kind: 'flows', family: 4, elements: new Set(['10.9.9.9 172.17.0.2 1000 53']) };
    const withEnded = { ...table, sets: new Map([...table.sets, ['ended-v4', ended]]) };
    const verdict = (more: Pick<FilterPacket, 'state' | 'isMidStream'>, of = table): string =>
      judgePacket(of, 'forward', {
        source: parseAddress('10.9.9.9'),
        destination: parseAddress('172.17.0.2'),
        protocol: 6,
        ports: { source: 1000, destination: 53 },
        inInterface: at,
        outInterface: 'docker0',
        isToHost: false,
        ...more,
      }).verdict;
    const verdicts = [
      verdict({ state: 'invalid' }),
      verdict({ state: 'new', isMidStream: true }, withEnded),
      verdict({ state: 'new', isMidStream: true }),
      verdict({ state: 'new' }, withEnded),
    ];
    expect(verdicts).toEqual([expected, expected, 'accept', 'accept']);
  });

  const STAGED_DENY = { staged: true, ingress: [{ action: 'Deny' }], order: 1 };
  const STAGED_TCP = { staged: true, ingress: [{ action: 'Log' }, { action: 'Allow', protocol: 'TCP' }], order: 2 };
  const ALLOW = { ingress: [{ action: 'Allow' }], order: 3 };
  it.each([
    [
      'a rule that would deny, and the policy that is enforced',
      { s: STAGED_DENY, g: ALLOW },
      ['s ingress 0', 'g ingress 0'],
    ],
    [
      'each staged policy before the policy that decides',
      { s: STAGED_DENY, t: STAGED_TCP, g: ALLOW },
      ['s ingress 0', 't ingress 0', 'g ingress 0'],
    ],
    [
      'only the first that would decide, when no policy is enforced',
      { s: STAGED_DENY, t: STAGED_TCP },
      ['s ingress 0'],
    ],
    [
      'that no rule of the staged policies would allow the packet',
      { t: STAGED_TCP },
      ['t ingress 0', 'staged tier GlobalNetworkPolicy t'],
    ],
    [
      'that a staged policy without rules would deny',
      { e: { staged: true, ingress: [] } },
      ['staged tier GlobalNetworkPolicy e'],
    ],
  ] as const)('of staged policies count %s, and let the packet pass', (_, policies, counted) => {
    const cluster = new PolicyCluster();
    cluster.putNamespace('x');
    cluster.putPod(podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true }));
    for (const [name, spec] of Object.entries(policies)) cluster.put(globalPolicy(name, {}, spec));
    const { table, origins } = new RulesetCompiler(SETTINGS).compile(cluster.state);
    const judged = judgePacket(table, 'forward', {
      source: parseAddress('10.9.9.9'),
      destination: parseAddress('10.65.0.1'),
      protocol: 17,
      ports: { source: 1000, destination: 53 },
      outInterface: 'npl1',
      state: 'new',
      isToHost: false,
    });
    expect(judged.verdict).toBe('accept');
    const names = judged.counted.flatMap(({ id }) => {
      const origin = origins.get(id);
      if (origin?.kind === 'policy')
        return [`${origin.name.replace('GlobalNetworkPolicy ', '')} ${origin.direction} ${String(origin.index)}`];
      return origin?.kind === 'staged tier' ? [`staged tier ${origin.policies.join(' ')}`] : [];
    });
    expect(names).toEqual(counted);
    const stagedIds = judged.counted.filter(({ id }) => {
      const origin = origins.get(id);
      return origin?.kind === 'staged tier' || (origin?.kind === 'policy' && origin.isStaged);
    });
    expect(judged.reported.map(({ prefix }) => prefix)).toEqual(stagedIds.map(({ id }) => id));
  });
});

/** Returns the table in a form that is equal for equal tables. */
/** Returns the table without the chains and sets that the other one does not have, of which none is a base chain. */
function withoutOthers(table: FilterTable, { chains, sets }: FilterTable): FilterTable {
  const others = [...table.chains].filter(([name]) => !chains.has(name));
  expect(others.filter(([, { hook }]) => hook !== undefined)).toEqual([]);
  return {
    ...table,
    chains: new Map([...table.chains].filter(([name]) => chains.has(name))),
    sets: new Map([...table.sets].filter(([name]) => sets.has(name))),
  };
}

function plain({ chains, sets }: FilterTable): unknown {
  const sorted = [...sets].map(([setName, set]): [string, unknown] => [
    setName,
    { ...set, elements: [...set.elements].toSorted() },
  ]);
  return [[...chains].toSorted(([a], [b]) => a.localeCompare(b)), sorted.toSorted(([a], [b]) => a.localeCompare(b))];
}
