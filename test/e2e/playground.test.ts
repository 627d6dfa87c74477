// The cluster that `make cluster` starts, as its user meets it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { program, releaseOf } from '../support/components.ts';
import { here } from '../support/here.ts';
import { makeImage } from '../support/image.ts';
import { removeAtEnd } from '../support/janitor.ts';
import { newNetns, type TestNetns } from '../support/netns.ts';
import { type RunResult, until } from '../support/node.ts';
import { NETPLUGCTL } from '../support/built.ts';

const SCRIPT = resolve(import.meta.dirname, '../../scripts/cluster.ts');

/** Two minutes on a quiet machine, and more when the images have to be built. */
const TEN_MINUTES = 600_000;

/** Pods of netplug on two nodes. */
const RUNNING = {
  'netplug-node': 2,
  'netplug-bird': 2,
  'netplug-orch-controllers': 2,
  'netplug-operator': 1,
  'netplug-typha': 2,
};

let dir: string;
let machine: TestNetns;
/** What `up` has printed. */
let printed = '';
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'netplug-playground-'));
  removeAtEnd('folder', dir);
  machine = await newNetns();
  const { status, stdout, stderr } = await cluster('up');
  if (status !== 0) throw new Error(`${stdout}${stderr}`);
  printed = stdout;
}, TEN_MINUTES);
afterAll(async () => {
  await cluster('down');
  await machine[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

const state = (): string => join(dir, 'cluster');
const environment = (): Record<string, string> => ({
  NETPLUG_CLUSTER_DIR: state(),
  KUBECONFIG: join(state(), 'kubeconfig'),
});

/** Runs a program where the user of the cluster is. */
async function run(command: readonly string[]): Promise<RunResult> {
  return here.run(['nsenter', `--net=${machine.path}`, ...command], { env: environment() });
}

async function cluster(...args: string[]): Promise<RunResult> {
  return run([process.execPath, SCRIPT, ...args]);
}

async function kubectl(...args: string[]): Promise<string> {
  const { status, stdout, stderr } = await run([program('kubectl'), ...args]);
  if (status !== 0) throw new Error(`kubectl ${args.join(' ')}: ${stdout}${stderr}`);
  return stdout;
}

describe('the local test cluster', () => {
  it('prints the paths of its tools and how to reach it, also on a second start', async () => {
    const lines = [
      `kubectl is ${program('kubectl')}`,
      `helm is ${program('helm')}`,
      `export KUBECONFIG=${join(state(), 'kubeconfig')}`,
    ];
    expect(printed.trim().split('\n').slice(-3)).toEqual(lines);
    expect((await cluster('up')).stdout.trim().split('\n').slice(-3)).toEqual(lines);
  });

  it('has netplug installed by the operator, with pods of its namespace that run', async () => {
    expect(printed).toContain('netplugctl install cluster --method operator --spec ');
    expect(printed).toContain('network proved: 2 nodes');
    expect((await run([NETPLUGCTL, 'install', 'status'])).stdout).toContain('netplug-node: ready');
    const conditions = 'jsonpath={.status.conditions[?(@.status=="True")].type}';
    expect(await kubectl('get', 'installation', 'default', `--output=${conditions}`)).toBe('Available');
    const pods = await kubectl('get', 'pods', '--namespace=netplug-system', '--no-headers');
    const names = pods.trim().split('\n');
    for (const [name, count] of Object.entries(RUNNING)) {
      expect(names.filter((line) => new RegExp(`^${name}-\\S+ +1/1 +Running`).test(line))).toHaveLength(count);
    }
    expect(names).toHaveLength(Object.values(RUNNING).reduce((sum, count) => sum + count));
  });

  it('lets a pod reach a Deployment by the name of its Service with wget, nc and nslookup of busybox', async () => {
    await kubectl(
      'create',
      'deployment',
      'web',
      '--image=busybox:1.35',
      '--',
      'httpd',
      '-f',
      '-p',
      '8080',
      '-h',
      '/etc',
    );
    await kubectl('expose', 'deployment', 'web', '--port=80', '--target-port=8080');
    const onNodeA = `--overrides=${JSON.stringify({ spec: { nodeName: 'node-a' } })}`;
    await kubectl('run', 'client', '--image=busybox:1.35', onNodeA, '--', 'sleep', '100000');
    await kubectl('wait', '--for=condition=Available', '--timeout=60s', 'deployment/web');
    await kubectl('wait', '--for=condition=Ready', '--timeout=60s', 'pod/client');
    const inClient = async (script: string): Promise<string> => kubectl('exec', 'client', '--', 'sh', '-c', script);
    const name = (await kubectl('get', 'pods', '--selector=app=web', '--output=name')).trim().replace('pod/', '');
    expect(await inClient('wget -T 5 -q -O - http://web/hostname')).toBe(`${name}\n`);
    expect(await inClient('printf "GET /hostname HTTP/1.0\\r\\n\\r\\n" | nc -w 5 web 80')).toContain(`${name}\n`);
    const service = (await kubectl('get', 'service', 'web', '--output=jsonpath={.spec.clusterIP}')).trim();
    expect(await inClient('nslookup web.default.svc.cluster.local')).toContain(`Address: ${service}`);
  });

  it('forwards ports and shows logs', async () => {
    const forward = spawn(
      'nsenter',
      [`--net=${machine.path}`, program('kubectl'), 'port-forward', 'service/web', '18080:80'],
      {
        env: { ...process.env, ...environment() },
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    const gone = once(forward, 'exit');
    try {
      await once(forward.stdout, 'data');
      const ask = ['curl', '--silent', '--max-time', '5', 'http://127.0.0.1:18080/hostname'];
      expect((await run(ask)).stdout).toMatch(/^web-/);
    } finally {
      forward.kill();
      await gone;
    }
    await kubectl('run', 'talker', '--image=busybox:1.35', '--restart=Never', '--', 'echo', 'heard');
    await until(
      async () => (await kubectl('logs', 'talker').catch(() => '')) === 'heard\n',
      'the log is there',
      60_000,
      250,
    );
  });

  it('stores its records in the API, where netplugctl finds them, and applies annotations', async () => {
    expect((await run([NETPLUGCTL, 'get', 'ippools', '--output', 'name'])).stdout).toBe(
      'ippool/default-ipv4\nippool/default-ipv6\nippool/floating\n',
    );
    const annotations = {
      'cni.netplug/ipAddrs': '["10.83.200.7"]',
      'cni.netplug/floatingIPs': '["10.84.0.7"]',
    };
    // On the other node than its client.
    const overrides = JSON.stringify({ metadata: { annotations }, spec: { nodeName: 'node-b' } });
    await kubectl(
      'run',
      'fixed',
      '--image=busybox:1.35',
      `--overrides=${overrides}`,
      '--',
      'httpd',
      '-f',
      '-p',
      '80',
      '-h',
      '/etc',
    );
    await kubectl('wait', '--for=condition=Ready', '--timeout=60s', 'pod/fixed');
    expect(await kubectl('get', 'pod', 'fixed', '--output=jsonpath={.status.podIP}')).toBe('10.83.200.7');
    for (const address of ['10.83.200.7', '10.84.0.7']) {
      const ask = ['exec', 'client', '--', 'wget', '-T', '3', '-q', '-O', '-', `http://${address}/hostname`];
      await until(async () => (await kubectl(...ask).catch(() => '')) === 'fixed\n', `${address} answers`, 60_000, 250);
    }
  });

  it('gives a pod an address without the address manager, and host ports, in both families', async () => {
    const annotations = { 'cni.netplug/ipAddrsNoIpam': '["10.84.0.9", "fd00:83::9:9"]' };
    const main = {
      name: 'main',
      image: 'busybox:1.35',
      command: ['httpd', '-f', '-p', '80', '-h', '/etc'],
      ports: [{ containerPort: 80, hostPort: 8088 }],
    };
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'unmanaged', annotations },
      spec: { nodeName: 'node-b', containers: [main] },
    };
    await writeFile(join(dir, 'unmanaged.json'), JSON.stringify(pod));
    await kubectl('apply', `--filename=${join(dir, 'unmanaged.json')}`);
    await kubectl('wait', '--for=condition=Ready', '--timeout=60s', 'pod/unmanaged');
    const addresses = '--output=jsonpath={.status.podIPs[*].ip}';
    expect(await kubectl('get', 'pod', 'unmanaged', addresses)).toBe('10.84.0.9 fd00:83::9:9');
    expect(await kubectl('get', 'pod', 'client', addresses)).toMatch(/^10\.83\.\d+\.\d+ fd00:83::\S+$/);
    // BGP announces it to the node of the client. The host port is that of the node.
    for (const host of ['10.84.0.9', '172.31.0.12:8088', '[fd00:172:31::c]:8088']) {
      const ask = ['exec', 'client', '--', 'wget', '-T', '3', '-q', '-O', '-', `http://${host}/hostname`];
      await until(
        async () => (await kubectl(...ask).catch(() => '')) === 'unmanaged\n',
        `${host} answers`,
        60_000,
        250,
      );
    }
  });

  it('limits the bandwidth of a pod by annotation', async () => {
    const annotations = { 'kubernetes.io/egress-bandwidth': '10M' };
    const overrides = JSON.stringify({ metadata: { annotations }, spec: { nodeName: 'node-a' } });
    await kubectl('run', 'slow', '--image=busybox:1.35', `--overrides=${overrides}`, '--', 'sleep', '100000');
    await kubectl('wait', '--for=condition=Ready', '--timeout=60s', 'pod/slow');
    expect((await cluster('shell', 'node-a', 'tc', 'qdisc', 'show')).stdout).toMatch(/qdisc tbf .* rate 10Mbit/);
  });

  it('runs pods from a loaded image archive, and names an archive that cannot be loaded', async () => {
    const options = { names: ['example.test/mine:1'], config: { Cmd: ['sleep', '100000'] } };
    const archive = await makeImage(join(dir, 'image'), options);
    const loaded = await cluster('load', archive);
    expect(loaded).toMatchObject({ status: 0, stdout: expect.stringContaining('node-b') });
    await kubectl('run', 'mine', '--image=example.test/mine:1');
    await kubectl('wait', '--for=condition=Ready', '--timeout=60s', 'pod/mine');
    const missing = await cluster('load', join(dir, 'nothing.tar'));
    expect(missing.status).toBe(1);
    expect(missing.stderr).toContain('no such file');
  });

  it('runs commands on its nodes with their exit status, and lists its nodes for an unknown one', async () => {
    expect((await cluster('shell', 'node-b', 'hostname')).stdout).toBe('node-b\n');
    expect((await cluster('shell', 'node-b', 'sh', '-c', 'containerd --version; pwd')).stdout).toMatch(
      new RegExp(`v${releaseOf('containerd')}.*\\n${process.cwd()}\\n$`),
    );
    expect((await cluster('shell', 'node-a', 'sh', '-c', 'exit 7')).status).toBe(7);
    expect(await cluster('shell', 'node-z')).toMatchObject({
      status: 64,
      stderr: 'cluster: there is no node "node-z"; nodes: node-a, node-b\n',
    });
  });

  it.each([
    ['up', '--nodes', '0'],
    ['up', '--datastore', 'files'],
    ['up', '--network', 'installed'],
    ['up', '--method', 'helm'],
    ['up', '--datastore', 'kv', '--method', 'operator'],
    ['up', '--colour'],
    ['load'],
    ['toString'],
  ])('explains its use when called with %j', async (...args) => {
    expect(await cluster(...args)).toMatchObject({ status: 64, stderr: expect.stringMatching(/^usage: /) });
  });

  it('refuses to start another one beside it', async () => {
    expect(await cluster('up', '--datastore', 'kv')).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('make cluster-down'),
    });
  });

  it('leaves nothing after it is shut down, and can be shut down twice', async () => {
    expect(await cluster('down')).toMatchObject({ status: 0 });
    expect((await machine.ip('link')).map(({ ifname }) => String(ifname))).toEqual(['lo']);
    expect((await here.run(['ls', dir])).stdout.split('\n').filter((name) => name === 'cluster')).toEqual([]);
    expect(await cluster('down')).toMatchObject({ status: 0 });
    expect(await cluster('load', 'any.tar')).toMatchObject({
      status: 1,
      stderr: 'cluster: no cluster is running; start one with "make cluster"\n',
    });
  }, 240_000);

  it(
    'stores its records in etcd on request, where netplugctl finds them by the printed settings',
    async () => {
      const { stdout } = await cluster('up', '--nodes', '1', '--datastore', 'kv');
      expect(stdout).toContain('netplugctl install cluster --method manifest --spec ');
      const [, endpoints = ''] = /^export KV_ENDPOINTS=(.*)$/m.exec(stdout) ?? [];
      const pools = ['get', 'ippools', '--output', 'name'];
      expect((await run(['env', `KV_ENDPOINTS=${endpoints}`, NETPLUGCTL, ...pools])).stdout).toContain('default-ipv4');
      const annotations = { 'cni.netplug/ipAddrs': '["10.83.200.7"]' };
      const overrides = JSON.stringify({ metadata: { annotations } });
      await kubectl('run', 'fixed', '--image=busybox:1.35', `--overrides=${overrides}`, '--', 'sleep', '100000');
      await kubectl('wait', '--for=condition=Ready', '--timeout=60s', 'pod/fixed');
      expect(await kubectl('get', 'pod', 'fixed', '--output=jsonpath={.status.podIP}')).toBe('10.83.200.7');
      expect(await cluster('down')).toMatchObject({ status: 0 });
    },
    TEN_MINUTES,
  );

  it('starts without a network on request, with nodes that are not ready and have no netplug', async () => {
    await cluster('up', '--nodes', '1', '--network', 'none');
    const ready = 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}';
    expect(await kubectl('get', 'nodes', `--output=${ready}`)).toBe('False');
    const plugins = (await cluster('shell', 'node-a', 'ls', '/opt/cni/bin')).stdout.trim().split('\n');
    expect(plugins).toContain('portmap');
    expect(plugins.filter((name) => name.startsWith('netplug'))).toEqual([]);
    expect(await cluster('down')).toMatchObject({ status: 0 });
  }, 240_000);

  it('keeps only its log when it fails to start, and removes no foreign file', async () => {
    await writeFile(join(dir, 'broken'), '#!/bin/sh\nexit 3\n', { mode: 0o755 });
    await mkdir(state(), { recursive: true });
    await writeFile(join(state(), 'mine'), 'mine');
    const { status, stdout } = await run([
      'env',
      `KUBE_APISERVER=${join(dir, 'broken')}`,
      process.execPath,
      SCRIPT,
      'up',
    ]);
    expect(status).toBe(1);
    expect(stdout).toContain(`${join(state(), 'cluster.log')} says why`);
    expect((await readdir(state())).toSorted()).toEqual(['cluster.log', 'mine']);
    expect(await cluster('down')).toMatchObject({ status: 0 });
    expect(await readdir(state())).toEqual(['mine']);
  }, 240_000);
});
