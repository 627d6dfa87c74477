import { stripVTControlCharacters } from 'node:util';
import { forTerminal } from '../screen.ts';
import { describe, expect, it } from 'vitest';
import { callCtl, type Ran } from '../../../../test/support/ctl.ts';
import type { ShownNetwork } from '../../../model/shown-network.ts';
import { renderNetwork } from './render-network.ts';

const PLAIN = { columns: 100, mayColour: false };
const session = (
  peer: string,
  kind: string,
  state: string,
  info: string,
): NonNullable<ShownNetwork['bgp']>[number] => ({
  peer,
  kind,
  state,
  since: '2026-01-01T10:00:00Z',
  info,
});
const NETWORK: ShownNetwork = {
  node: 'node-a',
  addresses: [
    { address: '192.0.2.1/24', device: 'eth0' },
    { address: '2001:db8::1/64', device: 'eth0' },
  ],
  tunnels: [{ device: 'vxlan.netplug', address: '10.0.0.1' }, { device: 'vxlan6.netplug' }],
  routes: { blackhole: 2, direct: 3, tunnelled: 14 },
  peers: 2,
  nodes: 3,
  pools: [
    { name: 'blue', cidr: '10.0.0.0/16', mode: 'VXLAN CrossSubnet' },
    { name: 'green', cidr: '10.1.0.0/16', mode: 'BGP' },
  ],
  bgp: [
    session('192.0.2.2', 'mesh', 'Established', ''),
    session('198.51.100.1', 'global', 'Connect', 'Socket: No route to host'),
  ],
  problems: [],
};
const problem = (
  text: string,
  more: Partial<ShownNetwork['problems'][number]> = {},
): ShownNetwork['problems'][number] => ({
  code: 'network/failing',
  severity: 'error',
  text,
  since: '2026-01-01T10:00:00Z',
  ...more,
});
const BROKEN: ShownNetwork = {
  ...NETWORK,
  problems: [
    problem('routes: the kernel refused', { remedy: 'Read the log of netplug-agent' }),
    problem('BIRD does not run', { code: 'network/bgp', severity: 'warning' }),
  ],
};

describe('netplugctl node status', () => {
  it('shows networks as in the golden file', async () => {
    const { bgp: _, ...withoutBird } = NETWORK;
    const onlyBlue = { ...withoutBird, pools: NETWORK.pools.slice(0, 1) };
    const bare = { ...onlyBlue, addresses: [], tunnels: [], pools: [], nodes: 1 };
    const served = { server: 'netplug-typha-7d9f-x2k4', since: '2026-01-01T10:00:00Z', heardSecondsAgo: 1.2, moves: 1 };
    const fannedOut = { ...withoutBird, fanOut: served };
    const alone = { ...BROKEN, fanOut: { moves: 2, lastError: 'netplug-typha-7d9f-x2k4 is silent' } };
    const [mesh, router] = [
      session('192.0.2.2', 'mesh', 'Established', ''),
      session('198.51.100.1', 'global', 'Active', 'BFD session down'),
    ];
    const watched = { ...withoutBird, bgp: [{ ...mesh, bfd: 'Up' }, router] };
    const all = [NETWORK, BROKEN, withoutBird, onlyBlue, { ...NETWORK, bgp: [] }, bare, fannedOut, alone, watched];
    const text = all.map((network) => renderNetwork(network, PLAIN)).join('\n----\n\n');
    await expect(text).toMatchFileSnapshot('../../../../test/golden/node-status.txt');
  });

  it('exits with 1 when there are problems', async () => {
    expect(await run(NETWORK)).toMatchObject({ status: 0, err: '', out: renderNetwork(NETWORK, PLAIN) });
    expect((await run(BROKEN)).status).toBe(1);
  });

  it('prints the answer of the agent with -o json', async () => {
    const { out, status } = await run(BROKEN, '-o', 'json');
    expect(JSON.parse(out)).toEqual(BROKEN);
    expect(status).toBe(1);
  });

  it('asks the agent at --socket, by default that of this node', async () => {
    expect((await run(NETWORK)).asked).toEqual(['/nowhere/run/cni.sock', 'show-network']);
    expect((await run(NETWORK, '--socket', '/tmp/a.sock')).asked).toEqual(['/tmp/a.sock', 'show-network']);
  });

  it('colours problems only when the screen allows colours', () => {
    const coloured = renderNetwork(BROKEN, { columns: 100, mayColour: true });
    expect(forTerminal(coloured)).toContain('\u001B[33m  warning network/bgp: BIRD does not run');
    expect(stripVTControlCharacters(coloured)).toBe(renderNetwork(BROKEN, PLAIN));
  });

  it('replaces control characters in names that netplug does not control', () => {
    const evil = '\u001B[2J\u0007';
    const network = {
      ...BROKEN,
      node: evil,
      problems: [problem(evil, { remedy: evil, since: evil })],
      bgp: [{ ...session(evil, evil, evil, evil), bfd: evil }],
    };
    expect(renderNetwork(network, PLAIN)).not.toMatch(/(?!\n)\p{Cc}/u);
  });

  it('fails with a hint when no agent answers, or its answer cannot be decoded', async () => {
    expect(await callCtl(['node', 'status'], {})).toMatchObject({
      status: 69,
      err: expect.stringContaining('Cannot reach the agent at "/nowhere/run/cni.sock": no agent listens'),
    });
    const askAgent = async (): Promise<string> => Promise.resolve('{}');
    expect(await callCtl(['node', 'status'], { askAgent })).toMatchObject({ status: 76 });
  });
});

async function run(network: ShownNetwork, ...flags: readonly string[]): Promise<Ran & { asked: readonly string[] }> {
  let asked: readonly string[] = [];
  const ran = await callCtl(['node', 'status', ...flags], {
    askAgent: async (socket, { kind }) => {
      asked = [socket, kind];
      return Promise.resolve(JSON.stringify(network));
    },
  });
  return { ...ran, asked };
}
