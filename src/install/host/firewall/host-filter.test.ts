import { describe, expect, it } from 'vitest';
import { parseCidr } from '../../../net/cidr.ts';
import { findDroppers, type FilterRule, type ForwardFilter } from './host-filter.ts';
import { readLegacyTable } from './read-filters.ts';

const POOLS = ['10.65.0.0/16', 'fd00:65::/48'].map(parseCidr);
const BOTH: readonly FilterRule[] = [
  { matches: ['iifname npl*'], action: 'accept' },
  { matches: ['oifname npl*'], action: 'accept' },
];

function filterWith(FORWARD: readonly FilterRule[], more: Partial<ForwardFilter> = {}): ForwardFilter {
  const { rules = {}, ...rest } = more;
  return {
    family: 'ip',
    table: 'filter',
    chain: 'FORWARD',
    isLegacy: false,
    policy: 'drop',
    rules: { FORWARD, ...rules },
    ...rest,
  };
}

describe('doctor: forward filters that drop packets of pods', () => {
  it.each([
    ['a policy that drops', filterWith([])],
    ['a last rule that drops', filterWith([{ matches: [], action: 'drop' }], { policy: 'accept' })],
    ['only packets from pods accepted', filterWith(BOTH.slice(0, 1))],
    ['rules for other interfaces only', filterWith([{ matches: ['iifname docker0'], action: 'accept' }])],
    ['rules with conditions', filterWith(BOTH.map(({ matches, action }) => ({ matches: [...matches, '?'], action })))],
    ['rules after one that drops', filterWith([{ matches: [], action: 'drop' }, ...BOTH])],
    [
      'rules after the end of a chain',
      filterWith([{ matches: [], action: '>OWN' }], { rules: { OWN: [{ matches: [], action: 'return' }, ...BOTH] } }),
    ],
    [
      'ranges of one family in a table of both families',
      filterWith(
        [
          { matches: ['saddr 10.0.0.0/8'], action: 'accept' },
          { matches: ['daddr 10.0.0.0/8'], action: 'accept' },
        ],
        { family: 'inet' },
      ),
    ],
  ])('are reported: %s', (_what, filter) => {
    expect(findDroppers([filter], POOLS)).toHaveLength(1);
  });

  it.each([
    ['a policy that accepts', filterWith([{ matches: ['?'], action: 'drop' }], { policy: 'accept' })],
    ['links of pods accepted', filterWith(BOTH)],
    [
      'links of pods accepted in a chain that is called',
      filterWith([{ matches: [], action: '>DOCKER-USER' }], { rules: { 'DOCKER-USER': BOTH } }),
    ],
    [
      'ranges of pods accepted',
      filterWith([
        { matches: ['saddr 10.0.0.0/8'], action: 'accept' },
        { matches: ['daddr 10.65.0.0/16'], action: 'accept' },
      ]),
    ],
    ['everything accepted', filterWith([{ matches: [], action: 'accept' }])],
  ])('are not reported: %s', (_what, filter) => {
    expect(findDroppers([filter], POOLS)).toEqual([]);
  });

  it('are reported with the chain for rules of administrators', () => {
    const docker = filterWith([{ matches: [], action: '>DOCKER-USER' }], { rules: { 'DOCKER-USER': [] } });
    const ufw = filterWith([{ matches: [], action: '>ufw-before-forward' }], { rules: { 'ufw-before-forward': [] } });
    expect(findDroppers([docker, ufw], POOLS)).toMatchObject([
      { insertInto: 'DOCKER-USER', isUfw: false },
      { insertInto: 'FORWARD', isUfw: true },
    ]);
  });

  it('are read from legacy iptables', () => {
    const lines = [
      '-P INPUT ACCEPT',
      '-P FORWARD DROP',
      '-N DOCKER-USER',
      '-A FORWARD -j DOCKER-USER',
      '-A FORWARD ! -i docker0 -o docker0 -j DROP',
      '-A DOCKER-USER -i npl+ -m comment --comment "pods of this node" -j ACCEPT',
      '-A DOCKER-USER -s 10.0.0.0/8 -m conntrack --ctstate NEW -j REJECT --reject-with icmp-port-unreachable',
    ];
    const filter = readLegacyTable('ip', lines.join('\n'));
    expect(filter).toMatchObject({
      policy: 'drop',
      isLegacy: true,
      rules: {
        FORWARD: [
          { matches: [], action: '>DOCKER-USER' },
          { matches: ['?', '?', '?'], action: 'drop' },
        ],
        'DOCKER-USER': [
          { matches: ['iifname npl*'], action: 'accept' },
          { matches: ['saddr 10.0.0.0/8', '?', '?'], action: 'drop' },
        ],
      },
    });
    expect(findDroppers([filter], POOLS)).toHaveLength(1);
    const accepting = readLegacyTable('ip', [...lines, '-A DOCKER-USER -o npl+ -j ACCEPT'].join('\n'));
    expect(findDroppers([accepting], POOLS)).toEqual([]);
  });
});
