import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { networkOf } from '../../../../test/contract/suites/dataplane/kernel.ts';
import { callCtl, type Ran } from '../../../../test/support/ctl.ts';
import { virtualClock } from '../../../base/clock.ts';
import { MemoryChainedState } from '../../../../test/support/memory/memory-chained-state.ts';
import { recordText } from '../../../../test/support/runtime-record.ts';
import { MemoryHostNetwork } from '../../../../test/support/memory/memory-host-network.ts';
import { memoryPacketTables } from '../../../../test/support/memory/memory-packet-tables.ts';
import { MemoryPolicyFilter } from '../../../../test/support/memory/memory-policy-filter.ts';
import { MemoryKernel } from '../../../../test/support/memory/memory-kernel.ts';
import { MemoryDatabase } from '../../../datastore/memory/memory-database.ts';
import { shaperOf } from '../../../dataplane/chained-state.ts';
import { AgentFiles } from '../../../install/agent-files.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';

const TOKEN = 'very-secret-token';
const CA = '-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n';
const never = new AbortController().signal;

let folder: string;
let kernel: MemoryKernel;
let host: MemoryHostNetwork;
let chained: MemoryChainedState;
let ipSets: readonly string[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-install-'));
  kernel = new MemoryKernel();
  host = new MemoryHostNetwork();
  chained = new MemoryChainedState();
  ipSets = [];
  await put('from/netplug-standalone', 'all of it');
  for (const name of ['netplug', 'netplug-ipam']) await put(`from/${name}`, 'program');
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

async function run(verb: string, flags: readonly string[] = [], env: Record<string, string> = {}): Promise<Ran> {
  const folders = ['--bin-dir', at('bin'), '--conf-dir', at('conf')];
  const { status, out, err } = await callCtl([...verb.split(' '), ...folders, ...flags], {
    clock: virtualClock(Date.now()),
    machine: {
      executable: undefined,
      stateDir: join(folder, 'state/netplug'),
      runDir: join(folder, 'run/netplug'),
      agentLock: join(folder, 'state/netplug/agent.lock'),
      socketPath: join(folder, 'run/netplug/cni.sock'),
      logDir: join(folder, 'log/netplug'),
      resultsDir: join(folder, 'results'),
      serviceAccountDir: join(folder, 'serviceaccount'),
    },
    host: { uid: 0, procDir: join(folder, 'proc') },
    openKernel: () => kernel,
    openHostNetwork: () => host,
    openPacketTables: () => memoryPacketTables({ sets: ipSets }),
    openFilter: () => new MemoryPolicyFilter(),
    openChained: () => chained,
    openStore: () => openMemoryStore(new MemoryDatabase()),
    env: { KV_ENDPOINTS: 'http://127.0.0.1:2379', ...env },
  });
  return { status, out: out.replaceAll(folder, ''), err: err.replaceAll(folder, '') };
}

const install = async (flags: readonly string[] = [], env: Record<string, string> = {}): Promise<Ran> =>
  run('node install', ['--from', at('from'), ...flags], env);
const at = (path: string): string => join(folder, path);
const text = async (path: string): Promise<string> => readFile(at(path), 'utf8');
const json = async (path: string): Promise<unknown> => JSON.parse(await text(path));

async function put(path: string, content: string): Promise<void> {
  await mkdir(join(at(path), '..'), { recursive: true });
  await writeFile(at(path), content);
}

async function names(path: string): Promise<string[]> {
  return readdir(at(path)).catch(() => []);
}

describe('node install', () => {
  it('installs the executables, then the conflist, and changes nothing the second time', async () => {
    expect(await install()).toEqual({
      status: 0,
      out: [
        'executable "/bin/netplug-standalone" installed',
        'executable "/bin/netplug" installed',
        'executable "/bin/netplug-ipam" installed',
        'conflist "/conf/10-netplug.conflist" installed',
        '',
      ].join('\n'),
      err: '',
    });
    expect(await names('bin')).toEqual(['netplug', 'netplug-ipam', 'netplug-standalone']);
    expect((await stat(at('bin/netplug'))).ino).toBe((await stat(at('bin/netplug-ipam'))).ino);
    expect((await stat(at('bin/netplug'))).mode & 0o777).toBe(0o755);
    expect((await stat(at('conf/10-netplug.conflist'))).mode & 0o777).toBe(0o600);
    const again = await install();
    expect(again.out).toMatch(/^(\w+ "[^"]+" unchanged\n){4}$/);
  });

  it('warns of what another plugin has left on the node, and installs beside it', async () => {
    ipSets = ['kube-router-node-ips'];
    const { status, err } = await install();
    expect(status).toBe(0);
    expect(err).toContain(
      'kube-router has left 1 set of ipset ("kube-router-node-ips"). Remove it, as docs/migration.md',
    );
    await put('conf/20-kube-router.conflist', '{"plugins": [{"type": "bridge", "bridge": "kube-bridge"}]}');
    expect((await install()).err).toBe('');
  });

  it('replaces files that differ in contents or permissions', async () => {
    await install();
    await put('bin/netplug', 'older');
    await put('from/netplug-ipam', 'newer');
    const { out } = await install(['--mtu', '1400', '-o', 'json']);
    expect(JSON.parse(out)).toEqual({
      steps: [
        { kind: 'executable', subject: '/bin/netplug-standalone', done: 'unchanged' },
        { kind: 'executable', subject: '/bin/netplug', done: 'replaced' },
        { kind: 'executable', subject: '/bin/netplug-ipam', done: 'replaced' },
        { kind: 'conflist', subject: '/conf/10-netplug.conflist', done: 'replaced' },
      ],
    });
    expect([await text('bin/netplug'), await text('bin/netplug-ipam')]).toEqual(['program', 'newer']);
  });

  it.each<[string, string[], number, RegExp]>([
    ['an MTU', ['--mtu', '10'], 78, /plugins\[0\]\.mtu: found 10 \(number\)/],
    ['a policy without access to the API', ['--policy-orch'], 69, /code: netconf\/needs-orchestrator/],
    ['a path', ['--log-file', 'x.log'], 64, /absolute path/],
    ['a name', ['--conf-name', '../x.conflist'], 64, /ends in \.conflist/],
    ['a name no runtime takes', ['--name', 'a/b'], 64, /Allowed are letters/],
    ['two sources', ['--conf', 'x', '--mtu', '1400'], 64, /cannot be used with option/],
    ['credentials', ['--orch-server', 'https://a'], 64, /no credentials are given/],
    ['a server', ['--orch-token-file', '/t'], 64, /--orch-server is missing/],
    ['a flag for the kubeconfig of kubectl', ['--kubeconfig', 'k'], 64, /hint: Set ORCHCONFIG/],
    ['a context of kubectl', ['--context', 'prod'], 64, /Cannot install with --kubeconfig or --context/],
    ['half a certificate', ['--orch-server', 'https://a', '--orch-client-cert', '/c'], 64, /must be given together/],
  ])('refuses %s that is wrong and writes nothing', async (_, flags, status, said) => {
    expect(await install(flags)).toMatchObject({ status, out: '', err: expect.stringMatching(said) });
    expect((await names('')).sort()).toEqual(['from']);
  });

  it('installs a conflist of the user unchanged when lint finds no error in it', async () => {
    const own =
      '{"name": "mine", "cniVersion": "0.4.0",  "plugins": [{"type": "netplug", "ipam": {"type": "netplug-ipam"}}]}';
    await put('own', own);
    expect(await install(['--conf', at('own')])).toMatchObject({
      status: 0,
      err: expect.stringContaining('warning: '),
    });
    expect(await text('conf/10-netplug.conflist')).toBe(own);

    for (const [wrong, said] of [
      [own.replace('"netplug-ipam"', '4'), /Cannot use file "\/own": 1 problem\n {2}plugins\[0\]\.ipam\.type/],
      ['{"name": "n", "type": "netplug", "ipam": {"type": "netplug-ipam"}}', /it is not a list/],
      [TOKEN, /it is not a JSON object/],
      ['[]', /it is not a JSON object/],
    ] as const) {
      await put('own', wrong);
      const { status, out, err } = await install(['--conf', at('own')]);
      expect({ status: status > 0, out, err }).toEqual({ status: true, out: '', err: expect.stringMatching(said) });
      expect(err).not.toContain(TOKEN);
      expect(await text('conf/10-netplug.conflist')).toBe(own);
    }
  });

  it('replaces the conflist that it installed under another name, unless that was changed', async () => {
    await install(['--conf-name', '05-a.conflist']);
    expect((await install()).out).toContain('conflist "/conf/05-a.conflist" removed\n');
    expect(await names('conf')).toEqual(['10-netplug.conflist']);
    await put('conf/10-netplug.conflist', '{}');
    const { err } = await install(['--conf-name', '20-b.conflist']);
    expect(err).toContain(
      'the earlier conflist "/conf/10-netplug.conflist" has changed since its installation, and is kept',
    );
    expect(err).toContain('"/conf/10-netplug.conflist" sorts before "20-b.conflist"');
    expect(await names('conf')).toEqual(['10-netplug.conflist', '20-b.conflist']);
  });

  it('does not replace the configuration of another plugin', async () => {
    await put('conf/10-other.conflist', '{"plugins": [{"type": "ptp"}]}');
    expect(await install(['--conf-name', '10-other.conflist'])).toEqual({
      status: 74,
      out: '',
      err: expect.stringMatching(
        /^Cannot replace "\/conf\/10-other\.conflist": it is not a configuration of netplug\n/,
      ),
    });
    expect([await names('bin'), await names('conf')]).toEqual([[], ['10-other.conflist']]);
    expect(await install()).toMatchObject({ status: 0, err: '' });
  });

  it('ignores an unreadable record', async () => {
    await put('state/netplug/install.json', '{"format": 1}');
    expect(await install()).toMatchObject({ status: 0, err: expect.stringContaining('cannot be decoded') });
  });

  it('installs nothing over a record of a newer release', async () => {
    await put('state/netplug/install.json', '{"format": 2, "by": "v3.29.0"}');
    expect(await install()).toMatchObject({ status: 79, err: expect.stringContaining('Use netplugctl of v3.29.0') });
    expect([await names('bin'), await names('conf')]).toEqual([[], []]);
  });
});

describe('the kubeconfig', () => {
  it('is made from flags, refers to the folder on the host, and is private', async () => {
    await put('ca', CA);
    await put('token', `${TOKEN}\n`);
    const flags = ['--orch-server', 'https://a:6443', '--orch-ca-file', at('ca'), '--orch-token-from', at('token')];
    const ran = await install([...flags, '--host-conf-dir', '/etc/cni/net.d']);
    expect(ran).toMatchObject({ status: 0, err: '' });
    expect(ran.out).not.toContain(TOKEN);
    expect((await stat(at('conf/netplug-kubeconfig'))).mode & 0o777).toBe(0o600);
    expect(await json('conf/netplug-kubeconfig')).toMatchObject({
      clusters: [{ cluster: { 'certificate-authority-data': Buffer.from(CA).toString('base64') } }],
      users: [{ user: { token: TOKEN } }],
    });
    expect(await json('conf/10-netplug.conflist')).toMatchObject({
      plugins: [{ orch: { orchconfig: '/etc/cni/net.d/netplug-kubeconfig' } }, {}, {}],
    });
    expect(await text('state/netplug/install.json')).not.toContain(TOKEN);
  });

  it('is made from the service account of a pod', async () => {
    await put('serviceaccount/ca.crt', CA);
    await put('serviceaccount/token', TOKEN);
    const env = { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '443' };
    expect(await install([], env)).toMatchObject({ status: 0, err: '' });
    expect(await json('conf/netplug-kubeconfig')).toMatchObject({
      clusters: [{ cluster: { server: 'https://[fd00::1]:443' } }],
      users: [{ user: { token: TOKEN } }],
    });
  });

  it('is not made from a token that ends with its pod', async () => {
    await put('serviceaccount/ca.crt', CA);
    const claims = { exp: 2_000_000_000, 'kubernetes.io': { pod: { name: 'installer' } } };
    const token = `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.c2ln`;
    await put('serviceaccount/token', token);
    const env = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' };
    const refused = await install([], env);
    expect(refused).toMatchObject({
      status: 64,
      err: expect.stringMatching(/ends with this pod\n.*NETPLUG_CNI_ACCOUNT/),
    });
    expect(refused.err).not.toContain(token);
    expect(await names('conf')).toEqual([]);
  });

  it('is not made for a pod without a service account token', async () => {
    const env = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' };
    expect(await install([], env)).toMatchObject({
      status: 0,
      err: expect.stringContaining('no credentials to pass on'),
    });
    expect(await names('conf')).toEqual(['10-netplug.conflist']);
  });

  it('is not made when the connection configures the access, which excludes the flags', async () => {
    const env = { ORCHCONFIG: '/etc/kube/own', KUBERNETES_SERVICE_HOST: 'a', KUBERNETES_SERVICE_PORT: '1' };
    expect(await install([], env)).toMatchObject({ status: 0 });
    expect(await names('conf')).toEqual(['10-netplug.conflist']);
    expect(await text('conf/10-netplug.conflist')).toContain('"orchconfig": "/etc/kube/own"');
    const flags = ['--orch-server', 'https://a', '--orch-token-file', '/t'];
    expect(await install(flags, env)).toMatchObject({ status: 64, err: expect.stringContaining('ORCHCONFIG') });
  });

  it('does not quote the contents of wrong files', async () => {
    await put('secret', `-----BEGIN PRIVATE KEY-----\n${TOKEN}\n-----BEGIN CERTIFICATE-----\n`);
    const server = ['--orch-server', 'https://a'];
    for (const flags of [
      [...server, '--orch-ca-file', at('secret'), '--orch-token-file', '/t'],
      [...server, '--orch-token-from', at('secret')],
      ['--config', at('secret')],
    ]) {
      const { status, out, err } = await install(flags);
      expect(status).not.toBe(0);
      expect(out + err).not.toContain(TOKEN);
    }
  });
});

describe('node uninstall', () => {
  it('removes the files that the agent wrote for the plugin', async () => {
    const files = new AgentFiles(at('state/netplug'), () => undefined);
    await mkdir(at('conf'));
    await files.put({ kind: 'token', path: at('state/netplug/cni-token'), text: 'token' }, never);
    for (const version of ['1', '2'])
      await files.put({ kind: 'conflist', path: at('conf/10-netplug.conflist'), text: version }, never);
    await files.put({ kind: 'kubeconfig', path: at('conf/netplug-kubeconfig'), text: 'kubeconfig' }, never);
    const { status, out, err } = await run('node uninstall', ['--bin-dir', at('bin')]);
    expect([status, err]).toEqual([0, '']);
    expect(out).toMatch(/^conflist .* removed\nkubeconfig .* removed\ntoken .* removed\n/);
    expect(await names('conf')).toEqual([]);
    expect(await names('state/netplug')).toEqual([]);
  });

  it('removes the installed files, and succeeds the second time', async () => {
    await install(['--orch-server', 'https://a', '--orch-token-file', '/t']);
    await put('conf/99-other.conflist', '{}');
    const first = await run('node uninstall');
    expect(first.out.split('\n').slice(0, 6)).toEqual([
      'conflist "/conf/10-netplug.conflist" removed',
      'kubeconfig "/conf/netplug-kubeconfig" removed',
      'executable "/bin/netplug-ipam" removed',
      'executable "/bin/netplug" removed',
      'executable "/bin/netplug-standalone" removed',
      'record "/state/netplug/install.json" removed',
    ]);
    expect(first).toMatchObject({ status: 0, err: '', out: expect.stringContaining('ipam check --fix') });
    expect([await names('bin'), await names('conf')]).toEqual([[], ['99-other.conflist']]);
    expect(await run('node uninstall')).toMatchObject({
      status: 0,
      err: '',
      out: expect.stringMatching(/^no file was/),
    });
  });

  it('removes the files from folders of the host that its container does not see', async () => {
    await install();
    const onHost = (name: string): string => join(folder, 'proc/1/root', folder, name);
    await mkdir(join(onHost('bin'), '..'), { recursive: true });
    for (const name of ['bin', 'conf']) await rename(at(name), onHost(name));
    expect(await run('node uninstall')).toMatchObject({
      status: 0,
      err: '',
      out: expect.stringMatching(/^conflist "\/conf\/10-netplug.conflist" removed\n/),
    });
    expect(await Promise.all(['bin', 'conf'].map(async (name) => readdir(onHost(name))))).toEqual([[], []]);
  });

  it('keeps changed files without --force', async () => {
    await install();
    await put('conf/10-netplug.conflist', '{}');
    expect(await run('node uninstall')).toMatchObject({
      status: 1,
      err: expect.stringContaining('it was changed after'),
    });
    expect([await names('bin'), await names('conf')]).toEqual([[], ['10-netplug.conflist']]);
    expect(await run('node uninstall', ['--force'])).toMatchObject({ status: 0, err: '' });
    expect([await names('conf'), await names('state/netplug')]).toEqual([[], []]);
  });

  it('keeps files without a record, unless --force is given', async () => {
    await install();
    await rm(at('state'), { recursive: true });
    expect(await run('node uninstall')).toMatchObject({ status: 1, err: expect.stringContaining('no record shows') });
    expect(await names('bin')).toHaveLength(3);
    expect(await run('node uninstall', ['--force'])).toMatchObject({ status: 0, err: '' });
    expect([await names('bin'), await names('conf')]).toEqual([[], []]);
  });

  it('removes files from the given folders when these have moved since the installation', async () => {
    await install();
    await run('node install', ['--bin-dir', at('bin2'), '--from', at('from')]);
    expect(await run('node uninstall')).toMatchObject({ status: 0 });
    expect([await names('bin'), await names('bin2')]).toEqual([[], ['netplug', 'netplug-ipam', 'netplug-standalone']]);
    await mkdir(at('mnt'));
    for (const name of await names('bin2')) await put(`mnt/${name}`, await text(`bin2/${name}`));
    expect(await run('node uninstall', ['--bin-dir', at('mnt')])).toMatchObject({ status: 0 });
    expect(await names('mnt')).toEqual([]);
  });
});

describe('uninstall --purge', () => {
  it('removes interfaces, state and logs, with or without an installation', async () => {
    kernel.addNetns('/pod');
    const podMac = '0a:00:00:00:00:01';
    for (const containerId of ['c1', 'c2']) {
      await kernel.apply(
        {
          netns: '/pod',
          podLinkName: containerId,
          hostLinkName: `npl${containerId}`,
          owner: { containerId, ifName: containerId, network: 'n' },
          podMac,
          mtu: undefined,
          queues: 1,
          addresses: [],
          routes: [],
          allowIpForwarding: false,
        },
        never,
      );
    }
    for (const file of ['state/netplug/nodename', 'run/netplug/lock', 'log/netplug/cni/cni.log', 'log/other']) {
      await put(file, '');
    }
    await install();
    expect(await run('node uninstall', ['--purge'])).toMatchObject({
      status: 69,
      out: '',
      err: expect.stringContaining('--force'),
    });
    expect(kernel.listHostLinks()).toHaveLength(2);
    const dryRun = await run('node uninstall', ['--purge', '--dry-run']);
    expect(dryRun).toMatchObject({ status: 69, err: expect.stringMatching(/^would be refused: Cannot purge/) });
    expect(dryRun.out.match(/^interface ".*" would be removed$/gm)).toHaveLength(2);
    expect(kernel.listHostLinks()).toHaveLength(2);
    expect(await run('node uninstall', ['--purge', '--force', '-o', 'json'])).toMatchObject({ status: 0, err: '' });
    expect(kernel.listHostLinks()).toEqual([]);
    expect([await names('state'), await names('run'), await names('log')]).toEqual([[], [], ['other']]);
    expect(await run('node uninstall', ['--purge'])).toMatchObject({ status: 0, err: '' });
  });

  it('names running pods, and removes what their chained plugins left after a DEL that failed', async () => {
    const owner = { network: 'k8s-pod-network', containerId: 'c1', ifName: 'eth0' };
    kernel.addNetns('/pod');
    await kernel.apply({ ...networkOf('/pod'), owner }, never);
    chained.mapPorts(owner, [4, 6]);
    chained.mapPorts({ ...owner, network: 'other' }, [4]);
    chained.addShaper(shaperOf(owner));
    await put('results/k8s-pod-network-c1-eth0', recordText());
    for (const plugin of ['portmap', 'bandwidth']) {
      await put(
        `bin/${plugin}`,
        `#!/bin/sh\n[ "$(basename $0)" = bandwidth ] || { echo "no iptables" >&2; exit 1; }\n`,
      );
      await chmod(at(`bin/${plugin}`), 0o755);
    }
    const refused = await run('node uninstall', ['--purge']);
    expect(refused.err).toContain('1 interface of pods still exist ("shop/web")');
    const purged = await run('node uninstall', ['--purge', '--force']);
    expect(purged).toMatchObject({
      status: 0,
      err: 'warning: DEL of chained plugins failed for "c1 eth0 of pod shop/web": portmap: no iptables\n',
    });
    expect(purged.out).toContain(`host port "container c1" removed\ninterface "${shaperOf(owner)}" removed\n`);
    expect(await chained.listPortRules()).toHaveLength(1);
    expect(await names('results')).toEqual(['k8s-pod-network-c1-eth0']);
  });

  it('removes the folders for settings that Kubernetes makes on the host when they are empty, and no password', async () => {
    const etc = 'proc/1/root/etc';
    await mkdir(at(`${etc}/netplug/bgp`), { recursive: true });
    const dryRun = await run('node uninstall', ['--purge', '--dry-run']);
    expect(dryRun.out).toContain('folder "/etc/netplug/bgp" would be removed\n');
    await put(`${etc}/netplug/bgp/rack-a`, 'secret');
    expect(await run('node uninstall', ['--purge'])).toMatchObject({ status: 0 });
    expect(await names(`${etc}/netplug/bgp`)).toEqual(['rack-a']);
    await rm(at(`${etc}/netplug/bgp/rack-a`));
    expect((await run('node uninstall', ['--purge'])).out).toContain('folder "/etc/netplug/bgp" removed\n');
    expect(await names(etc)).toEqual([]);
    await put(`${etc}/netplug/agent.env`, '');
    expect(await run('node uninstall', ['--purge'])).toMatchObject({ status: 0 });
    expect(await names(`${etc}/netplug`)).toEqual(['agent.env']);
  });

  it('does not empty a folder without "netplug" in its name', async () => {
    await put('run/netplug', 'a file');
    expect(await run('node uninstall', ['--purge'])).toMatchObject({
      status: 1,
      err: expect.stringContaining('was not removed'),
    });
    expect(await names('run')).toEqual(['netplug']);
  });
});
