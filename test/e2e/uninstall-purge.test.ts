// `node uninstall --purge` restores a host to its state before the installation, whatever the state of netplug.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { runsHere } from '../runs.ts';
import { type Agent, startAgent } from '../support/agent.ts';
import { type FabricNode, startFabricNode } from '../support/fabric-node.ts';
import { newSegments } from '../support/fabric-segments.ts';
import { type HostSnapshot, snapshotOf } from '../support/host-snapshot.ts';
import { type RunResult, startNode, type TestNode, until } from '../support/node.ts';
import { BUILT, NETPLUGCTL } from '../support/built.ts';

/** For temporary files: /tmp is shared with other tests, and /run is compared. */
const TMPDIR = '/run/temporary';
const ENV = { DATASTORE_TYPE: 'kvv3', KV_ENDPOINTS: 'http://127.0.0.1:2379', TMPDIR };
const NAME = 'leaving';
const PODS = ['pod-1', 'pod-2'];
const BIRD_CTL = '/run/netplug/bird/bird.ctl';

let scope: AsyncDisposableStack;
let node: TestNode;
let peer: FabricNode;
let before: HostSnapshot;
let agent: Agent;

beforeAll(async () => {
  scope = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), 'netplug-purge-'));
  scope.defer(async () => rm(dir, { recursive: true, force: true }));
  const segments = scope.use(await newSegments(1500));
  node = scope.use(await startNode({ name: NAME, ownRun: true, etcd: 'every-address', mode: 'standalone' }));
  const { addresses } = scope.use(await segments.plugIn(node.host, 'a', 11));
  await node.seedPool('tunnelled', '10.65.0.0/24', { vxlanMode: 'Always', natOutgoing: true });
  await node.seedPool('tunnelled6', 'fd00:66::/112', { vxlanMode: 'Always' });
  await node.seedPool('announced', '10.67.0.0/24');
  await node.seedPool('announced6', 'fd00:65::/112', { natOutgoing: true });
  const etcdUrl = `http://${addresses.ipv4}:2379`;
  const place = { segments, segment: 'a', number: 12, etcdUrl, stateDir: join(dir, 'peer') } as const;
  peer = scope.use(await startFabricNode({ name: 'peer', ...place }));
  await peer.startAgent();
  await peer.pod({ ipv4_pools: ['announced'], ipv6_pools: ['announced6'] });
  // Devices that the kernel creates with its modules do not count as left by netplug.
  await sh('ip link add t0 type vxlan id 1 dstport 4789 && ip link del t0');
  await sh("nft 'table inet t { chain c { type nat hook postrouting priority 100; ct state new masquerade; }; }'");
  await sh('nft delete table inet t');
  for (const pod of PODS) await sh(`ip netns add ${pod}`);
  await sh(`mkdir ${TMPDIR}`);
  await sh('rm -r /etc/cni /opt/cni/bin/netplug*; sysctl -q -w net.ipv4.conf.all.accept_redirects=0');
  await until(async () => (await sh('ip -6 address show tentative')) === '', 'its addresses are settled');
  before = await snapshotOf(node);
});
afterAll(async () => scope?.disposeAsync());

const sh = async (script: string): Promise<string> => node.exec('sh', '-c', script);
const ctl = async (...args: string[]): Promise<RunResult> => node.run([NETPLUGCTL, ...args], { env: ENV });
const purge = async (...flags: string[]): Promise<RunResult> => ctl('node', 'uninstall', '--purge', ...flags);

/** Installs netplug, and returns when the node routes, translates and speaks BGP for its pods. */
async function settleIn(): Promise<void> {
  expect(await ctl('node', 'install', '--from', BUILT)).toMatchObject({ status: 0 });
  agent = await startAgent(node, { socket: '/run/netplug/cni.sock', env: { NETPLUG_POLICY: 'on', TMPDIR } });
  const pools = { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' };
  for (const [index, containerId] of PODS.entries()) {
    const conf = node.netconf({ ipam: { ...pools, ipv4_pools: [index === 0 ? 'tunnelled' : 'announced'] } });
    const added = await node.cni('ADD', { containerId, netns: `/run/netns/${containerId}`, conf });
    expect(added).toMatchObject({ status: 0 });
  }
  const isThere = async (script: string): Promise<void> =>
    until(
      async () => (await sh(script)).trim() !== '',
      () => `${script}\n${agent.log().slice(-3000)}`,
    );
  await isThere('ip route show proto bird; true');
  await isThere('ip -6 route show proto bird; true');
  await isThere('ip route show proto 118; true');
  await isThere('nft list tables | grep netplug-nat || true');
  await isThere('nft list tables | grep netplug-policy || true');
  expect(await sh('ip -br link')).toMatch(/vxlan\.netplug[\s\S]*vxlan6\.netplug/);
}

/** Process id, as seen inside, of the BIRD of the node. */
const birdPid = async (): Promise<string> => (await sh('cat /run/netplug/bird/bird.pid')).trim();

async function isAsBefore(): Promise<void> {
  const after = await snapshotOf(node);
  for (const part of Object.keys(before)) expect({ [part]: after[part] }).toEqual({ [part]: before[part] });
}

/** Addresses and records of the node in the datastore. */
async function held(): Promise<string> {
  const records = await node.records();
  return [...records].flatMap(([key, value]) => (JSON.stringify([key, value]).includes(NAME) ? [key] : [])).join('\n');
}

const SILENT_TOO = runsHere('e2e/uninstall-purge: programs that do not answer');

describe('netplugctl node uninstall --purge', () => {
  beforeEach(async () => settleIn());

  it('is refused while pods run, lists with --dry-run what it removes, and restores the host', async () => {
    const during = await snapshotOf(node);
    const refused = await purge();
    expect(refused).toMatchObject({ status: 69, stdout: '' });
    expect(refused.stderr).toContain('2 interfaces of pods still exist');

    const dryRun = await purge('--dry-run', '--force');
    expect(dryRun).toMatchObject({ status: 0, stderr: '' });
    for (const line of [
      'conflist "/etc/cni/net.d/10-netplug.conflist" would be removed',
      `agent "process ${String(agent.pid)}" would be stopped`,
      `bird "process ${await birdPid()}" would be removed`,
      'tunnel "vxlan.netplug" would be removed',
      'tunnel "vxlan6.netplug" would be removed',
      'table "netplug-nat" would be removed',
      'setting "net.ipv4.ip_forward=0" would be removed',
      'folder "/var/lib/netplug" would be removed',
    ])
      expect(dryRun.stdout).toContain(`${line}\n`);
    expect(dryRun.stdout).toMatch(/^route "10\.6[57]\.0\..*" would be removed$/m);
    expect(await snapshotOf(node)).toEqual(during);

    const purged = await purge('--force');
    expect(purged).toMatchObject({ status: 0, stderr: '' });
    expect(purged.stdout).toContain(`agent "process ${String(agent.pid)}" stopped\n`);
    await agent.ended;
    await isAsBefore();
    expect(await held()).toBe('');
    expect(await purge()).toEqual({ status: 0, stdout: expect.not.stringContaining('removed'), stderr: '' });
  });

  it.each<readonly [string, () => Promise<void>]>([
    ['an agent that was killed', async () => agent.stop('KILL')],
    [
      'a server of standalone calls',
      async () => {
        await agent.stop('KILL');
        const gone = { containerId: 'gone', conf: node.netconf() };
        expect(await node.cni('DEL', gone)).toMatchObject({ status: 0 });
        expect(await sh('ls /run/netplug')).toContain('standalone.sock');
      },
    ],
    [
      'a BIRD that was killed',
      async () => {
        await agent.stop('KILL');
        await sh(`kill -KILL ${await birdPid()}`);
        expect(await sh('ip route show proto bird')).not.toBe('');
      },
    ],
    ['a BIRD whose control socket is gone', async () => void (await sh(`rm ${BIRD_CTL}`))],
    ...(SILENT_TOO
      ? ([
          ['an agent that does not answer', async () => agent.pause()],
          ['a BIRD that does not answer', async () => void (await sh(`kill -STOP ${await birdPid()}`))],
        ] as const)
      : []),
  ])('leaves a host as it was before, with %s', async (_, break_) => {
    await break_();
    expect(await purge('--force')).toMatchObject({ status: 0, stderr: '' });
    // The process that started it may have been stopped as well.
    await agent.resume();
    await agent.ended;
    await isAsBefore();
    expect(await held()).toBe('');
  });

  it('finishes a purge that was killed at any moment', async () => {
    for (const seconds of ['0.15', '0.25', '0.35', '0.5', '0.7'])
      await node.run(['timeout', '-s', 'KILL', seconds, NETPLUGCTL, 'node', 'uninstall', '--purge', '--force'], {
        env: ENV,
      });
    expect(await purge('--force')).toMatchObject({ status: 0, stderr: '' });
    await agent.ended;
    await isAsBefore();
    expect(await held()).toBe('');
  });

  it('continues without the rights to change the network, and keeps what a repetition needs', async () => {
    const bounded = ['setpriv', '--bounding-set=-net_admin', '--inh-caps=-net_admin', NETPLUGCTL];
    const first = await node.run([...bounded, 'node', 'uninstall', '--purge', '--force'], { env: ENV });
    expect(first.status).toBe(1);
    expect(first.stderr).toContain('warning: tunnel "vxlan.netplug" was not removed: ');
    expect(first.stderr).toContain('the folders of netplug are kept');
    await agent.ended;
    expect(await held()).not.toBe('');
    expect(await purge('--force')).toMatchObject({ status: 0, stderr: '' });
    await isAsBefore();
    expect(await held()).toBe('');
  });

  it.runIf(SILENT_TOO)(
    'restores the host while the datastore is unreachable, and names the command to run later',
    async () => {
      await node.etcd!.pause();
      const purged = await purge('--force');
      await node.etcd!.resume();
      expect(purged.status).toBe(0);
      expect(purged.stderr).toMatch(
        /^warning: addresses of node "leaving" stay in the datastore \(.*\); run "netplugctl node remove leaving" on a machine that reaches the datastore\n$/,
      );
      await isAsBefore();
      expect(await held()).not.toBe('');
      expect(await ctl('node', 'remove', NAME)).toMatchObject({ status: 0 });
      expect(await held()).toBe('');
    },
  );
});
