// The built images in a real containerd: loaded from their archives, and pulled from a registry.
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { POLICY_TABLE } from '../../src/policy/ruleset/policy-ruleset.ts';
import { NAT_TABLE } from '../../src/routing/nat-table.ts';
import { POD_TABLE } from '../../src/routing/pod-table.ts';
import { TUNNEL_TABLE } from '../../src/routing/tunnel-table.ts';
import { launchAgent } from '../support/agent.ts';
import { program } from '../support/components.ts';
import { type Containerd, registryFolder, startContainerd } from '../support/containerd.ts';
import { here } from '../support/here.ts';
import { builtImage, builtLayout, imageReference } from '../support/images.ts';
import { newLan } from '../support/lan.ts';
import { newNetns } from '../support/netns.ts';
import { type Json, type RunResult, startNode, type TestNode, until } from '../support/node.ts';

const NODE_IMAGE = imageReference('netplug-node');
const IMAGE = imageReference('netplug');
const REGISTRY_PORT = '5000';
const TABLES = [NAT_TABLE, POD_TABLE, POLICY_TABLE, TUNNEL_TABLE];
const scope = new AsyncDisposableStack();

let node: TestNode;
let containerd: Containerd;
let runs = 0;
beforeAll(async () => {
  const archives = [await builtImage('netplug-node'), await builtImage('netplug')];
  node = scope.use(await startNode({ asMachine: true, mode: 'standalone', plugins: 'standard' }));
  // As on every host with systemd: namespaces that containerd mounts later reach containers.
  await node.exec('mount', '--make-shared', '/run');
  containerd = scope.use(await startContainerd(node, { images: archives, network: 'later' }));
}, 300_000);
afterAll(async () => scope.disposeAsync());

const CTR = (): string[] => ['ctr', '--address', containerd.socket, '--namespace', 'k8s.io'];

/** The start of a command that runs a container in the network of the node. */
function container(image: string, ...options: string[]): string[] {
  runs += 1;
  const name = `container-${String(runs)}`;
  const place = ['--snapshotter', 'native', '--net-host', '--cgroup', `/${name}`];
  return [...CTR(), 'run', '--rm', ...place, ...options, image, name];
}

async function runIn(image: string, ...command: string[]): Promise<RunResult> {
  return node.run([...container(image), ...command]);
}

describe('the image netplug-node', () => {
  it.each([
    ['netplug-agent --version', /^netplug-agent v3\.27\.0$/m],
    ['netplug-bird --version', /^netplug-bird v3\.27\.0$/m],
    ['netplugctl version --client', /v3\.27\.0/],
    ['netplug', /netplug v3\.27\.0/],
    ['netplug-ipam', /netplug-ipam v3\.27\.0/],
    ['netplug-standalone', /v3\.27\.0/],
    ['bird --version', /^BIRD version 2\.17/m],
    ['birdcl -s /nowhere show status', /Unable to connect/],
    ['ip -V', /^ip utility/m],
    ['tar --version', /^tar \(GNU tar\)/m],
    ['nsenter --version', /^nsenter from util-linux/m],
    ['unshare --version', /^unshare from util-linux/m],
    ['/usr/lib/cni/host-local', /CNI host-local plugin v/],
    ['/usr/lib/cni/loopback', /CNI loopback plugin v/],
    ['/usr/lib/cni/portmap', /CNI portmap plugin v/],
    ['/usr/lib/cni/bandwidth', /CNI bandwidth plugin v/],
  ])('runs %s', async (command, expected) => {
    const { stdout, stderr } = await runIn(NODE_IMAGE, ...command.split(' '));
    expect(`${stdout}${stderr}`).toMatch(expected);
    // Of the dynamic linker, or of a program that misses its files.
    expect(stderr).not.toContain('error while loading shared libraries');
  });

  it('installs the plugin on a node and serves its pods, with BIRD of the image', async () => {
    await node.seedPool('default-ipv4', '10.83.0.0/24', { vxlanMode: 'Never', natOutgoing: true });
    await node.seedPool('tunnelled', '10.84.0.0/24', { vxlanMode: 'Always', natOutgoing: true });
    const places = ['/run', '/opt/cni/bin', '/etc/cni/net.d', '/var/lib', '/var/log'];
    const mounts = places.flatMap((path) => ['--mount', `type=bind,src=${path},dst=${path},options=rbind:rslave:rw`]);
    const env = {
      NODENAME: node.name,
      DATASTORE_TYPE: 'kvv3',
      KV_ENDPOINTS: 'http://127.0.0.1:2379',
      NETPLUG_HEALTH_ADDRESS: '127.0.0.1:9199',
      NETPLUG_POLICY: 'on',
    };
    const variables = Object.entries(env).flatMap(([key, value]) => ['--env', `${key}=${value}`]);
    const command = [...container(NODE_IMAGE, '--privileged', ...mounts, ...variables), 'netplug-agent'];
    await using agent = await launchAgent(node, { socket: '/run/netplug/cni.sock', command });
    await agent.ready();
    // By the nft of the machine, which is that of Debian 12, as kube-proxy in nftables mode would: it crashes when it reads sets that nft
    // 1.1.3 has written.
    let tables = '';
    await until(
      async () => {
        tables = (await node.run(['nft', 'list', 'tables'])).stdout;
        return TABLES.every((name) => tables.includes(`table inet ${name}\n`));
      },
      () => `nft lists the tables of the agent, not "${tables}"; it says:\n${agent.log()}`,
    );
    const ruleset = await node.run(['nft', 'list', 'ruleset']);
    expect(ruleset).toMatchObject({ status: 0, stderr: '' });
    expect(ruleset.stdout).toMatch(/flags interval\s+elements = \{ 10\.83\.0\.0\/24,\s+10\.84\.0\.0\/24 \}/);
    await until(
      async () => (await node.run(['test', '-S', '/run/netplug/bird/bird.ctl'])).status === 0,
      () => `the agent has started BIRD; it says:\n${agent.log()}`,
    );

    const install = container(NODE_IMAGE, ...mounts, ...variables);
    await node.exec(...(install as [string, ...string[]]), 'netplugctl', 'node', 'install');
    let conditions: Json[] = [];
    await until(
      async () => {
        ({ conditions } = (await containerd.cri.call('status')).status);
        return conditions.some(({ type, status }) => type === 'NetworkReady' && status === true);
      },
      () => `containerd has read the conflist: ${JSON.stringify(conditions)}`,
    );
    const id = await containerd.runSandbox({ namespace: 'shop', name: 'web-0', uid: 'a1b2c3d4' });
    const addresses = await containerd.sandboxIps(id);
    expect(addresses).toEqual([expect.stringMatching(/^10\.8[34]\.0\.\d+$/)]);
    await agent.settled();
    expect(await node.heldAddresses()).toContain(addresses[0]);
    expect((await agent.ask('/metrics')).body).toMatch(/netplug_\w*calls\w*\{[^}]*ADD[^}]*\} 1\b/i);
    await containerd.removeSandbox(id);
    await agent.settled();
    // The tunnel keeps its address.
    expect(await node.heldAddresses()).toHaveLength(1);
    expect(await node.heldAddresses()).not.toContain(addresses[0]);
  });
});

describe('the image netplug', () => {
  it.each([
    ['netplug-orch-controllers --version', /^netplug-orch-controllers v3\.27\.0$/m],
    ['netplugctl version --client', /v3\.27\.0/],
  ])('runs %s as a user without rights', async (command, expected) => {
    const { stdout, stderr } = await runIn(IMAGE, ...command.split(' '));
    expect(`${stdout}${stderr}`).toMatch(expected);
  });

  it('has no shell', async () => {
    const { status, stderr } = await runIn(IMAGE, 'sh', '-c', 'true');
    expect(status).not.toBe(0);
    expect(stderr).toContain('executable file not found');
  });
});

describe('a registry on the segment of the node', () => {
  it('serves the image by the digest of its index', async () => {
    await using lan = await newLan();
    await using host = await newNetns();
    const { ipv4 } = await lan.plugIn(host, 2);
    await lan.plugIn(node.host, 11);
    const at = ['nsenter', `--net=${host.path}`];
    const registry = await here.start([...at, program('crane'), 'registry', 'serve', '--address', `:${REGISTRY_PORT}`]);
    try {
      const address = `${ipv4}:${REGISTRY_PORT}`;
      const name = `${address}/netplug`;
      const layout = await builtLayout('netplug');
      let pushed: RunResult | undefined;
      const push = [...at, program('crane'), 'push', '--insecure', layout, `${name}:v3.27.0`];
      await until(
        async () => {
          pushed = await here.run(push);
          return pushed.status === 0;
        },
        () => `the image is pushed: ${pushed?.stderr ?? ''}\n${registry.log()}`,
      );
      const digest = (
        await here.run([...at, program('crane'), 'digest', '--insecure', `${name}:v3.27.0`])
      ).stdout.trim();
      const folder = join(registryFolder(node.dir), address);
      await mkdir(folder, { recursive: true });
      const url = `http://${address}`;
      await writeFile(
        join(folder, 'hosts.toml'),
        `server = "${url}"\n[host."${url}"]\n  capabilities = ["pull", "resolve"]\n`,
      );
      const pulled = `${name}@${digest}`;
      await containerd.cri.call('pullImage', { image: { image: pulled } });
      const { stdout } = await runIn(pulled, 'netplugctl', 'version', '--client');
      expect(stdout).toContain('v3.27.0');
    } finally {
      await registry.stop('KILL');
    }
  });
});
