import { mkdir, mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readLegacyFilters, readLegacyTable } from './read-legacy-filters.ts';

const LINES = [
  '-P INPUT DROP',
  '-P FORWARD DROP',
  '-P OUTPUT ACCEPT',
  '-N DOCKER-USER',
  '-A INPUT -p udp -m udp --dport 4789 -j ACCEPT',
  '-A INPUT -p tcp -m multiport --dports 22,4000:5000 -m conntrack --ctstate NEW -j ACCEPT',
  '-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
  '-A INPUT -m set --match-set friends src -j ACCEPT',
  '-A INPUT -m addrtype --dst-type LOCAL -j RETURN',
  '-A FORWARD -j DOCKER-USER',
  '-A FORWARD ! -i docker0 -o docker0 -j DROP',
  '-A DOCKER-USER -i npl+ -m comment --comment "pods of this -j node" -j ACCEPT',
  '-A DOCKER-USER -s 10.0.0.0/8 -m mark --mark 0x4000/0x4000 -j REJECT --reject-with icmp-port-unreachable',
  '-A DOCKER-USER -g ELSEWHERE',
];

describe('tables of legacy iptables', () => {
  it('are read with the chains that each hook calls', () => {
    const [input, forward, output] = readLegacyTable('ip', LINES.join('\n'));
    expect(input).toMatchObject({
      hook: 'input',
      policy: 'drop',
      isLegacy: true,
      rules: {
        INPUT: [
          { matches: ['protocol 17', 'dport 4789'], action: 'accept' },
          { matches: ['protocol 6', 'dport 22 4000-5000', 'state new'], action: 'accept' },
          { matches: ['state related established'], action: 'accept' },
          { matches: ['? a set of ipset'], action: 'accept' },
          { matches: ['daddrtype local'], action: 'return' },
        ],
      },
    });
    expect(forward).toMatchObject({
      hook: 'forward',
      policy: 'drop',
      rules: {
        FORWARD: [
          { matches: [], action: '>DOCKER-USER' },
          { matches: ['!iifname docker0', 'oifname docker0'], action: 'drop' },
        ],
        'DOCKER-USER': [
          { matches: ['iifname npl*'], action: 'accept' },
          { matches: ['saddr 10.0.0.0/8', '?', '?'], action: 'drop' },
          { matches: [], action: '>>ELSEWHERE' },
        ],
      },
    });
    expect(output).toMatchObject({ policy: 'accept', rules: { OUTPUT: [] } });
  });

  it('are unread where their program fails or is missing, and do not exist where the kernel has none', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'netplug-'));
    const signal = new AbortController().signal;
    const procDir = folder.path;
    const read = async (run: NonNullable<Parameters<typeof readLegacyFilters>[0]['run']>) =>
      readLegacyFilters({ procDir, run }, signal);
    const locked = async () => Promise.resolve({ status: 4, stdout: '', stderr: 'Another app holds the lock\n' });
    expect(await read(locked)).toEqual({ filters: [], unread: [] });
    await mkdir(join(procDir, 'net'));
    await writeFile(join(procDir, 'net/ip_tables_names'), 'nat\nfilter\n');
    const unread = (reason: unknown) => ({ filters: [], unread: [{ family: 'ip', table: 'filter', reason }] });
    expect(await read(locked)).toEqual(unread('iptables-legacy fails: Another app holds the lock'));
    const missing = async () => Promise.reject(new Error('spawn ENOENT'));
    expect(await read(missing)).toEqual(unread(expect.stringContaining('iptables-legacy cannot be run: ')));
    const listed = async () => Promise.resolve({ status: 0, stdout: LINES.join('\n'), stderr: '' });
    expect((await read(listed)).filters).toHaveLength(3);
  });
});
