// Kubernetes' own tests of its networks, on two nodes whose agents keep the network. test/sig-network.json says which run.
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { partOf } from '../runs.ts';
import type { Cluster } from '../support/cluster.ts';
import { startClusterDns } from '../support/cluster-dns.ts';
import { makeImage } from '../support/image.ts';
import { removeAtEnd } from '../support/janitor.ts';
import { program } from '../support/components.ts';
import type { Json } from '../support/node.ts';
import { type RoutedClusterOptions, startRoutedCluster } from '../support/routed-cluster.ts';
import { hasSctp } from '../support/sctp.ts';
import { makeTlsFolder } from '../support/tls.ts';

/** Two ways between the nodes, each with a mode of kube-proxy; and policies that the controllers mirror to etcd. */
const CLUSTERS = {
  tunnels: { proxyMode: 'nftables', vxlanMode: 'Always', datastore: 'orch' },
  direct: { proxyMode: 'iptables', vxlanMode: 'CrossSubnet', datastore: 'orch' },
  etcd: { proxyMode: 'nftables', vxlanMode: 'Always', datastore: 'kv' },
} as const;

type ClusterName = keyof typeof CLUSTERS;

/** Tests that run, or wait, for the same reason. */
interface Group {
  /** `runs`, `sctp` where the kernel must have that module, or what the tests wait for. */
  readonly status: string;
  /** The cluster they need, or `every`; `tunnels` unless given. */
  readonly cluster?: ClusterName | 'every';
  readonly why: string;
  readonly tests: readonly string[];
}

const REGISTRY = 'registry.k8s.io/e2e-test-images';
/** Stands in for the images of pause, dig and conntrack, whose programs it has as well. */
const AGNHOST = [
  `${REGISTRY}/agnhost:2.66.1`,
  `${REGISTRY}/glibc-dns-testing:2.1.1`,
  'registry.k8s.io/pause:3.10.2',
  'registry.k8s.io/build-image/distroless-iptables:v0.9.9',
];
const CONNTRACK = [`${REGISTRY}/regression-issue-74839:1.5`];
/** Each node has pools of its own, so that who has no agent can have routes, too. */
const POOLS = [
  { ipv4: '10.83.0.0/18', ipv6: 'fd00:83::/66' },
  { ipv4: '10.83.64.0/18', ipv6: 'fd00:83:0:0:4000::/66' },
  { ipv4: '10.83.128.0/18', ipv6: 'fd00:83:0:0:8000::/66' },
];
/** Processes at a time, and tests of each. */
const AT_ONCE = 5;
const BATCH = 4;
/** Of the names of some tests. */
const FOCUS = new RegExp(process.env['NETPLUG_SIG_NETWORK'] ?? '');

describe.each(Object.keys(CLUSTERS) as ClusterName[])(
  'the tests of Kubernetes for networks, on nodes joined by %s',
  (name) => {
    let dir: string;
    let cluster: Cluster;
    let groups: readonly Group[];
    beforeAll(async () => {
      dir = await mkdtemp(join(tmpdir(), 'netplug-sig-network-'));
      removeAtEnd('folder', dir);
      groups = JSON.parse(await readFile(join(import.meta.dirname, '../sig-network.json'), 'utf8'));
      const images = [await makeAgnhost(join(dir, 'agnhost')), await makeConntrack(join(dir, 'conntrack'))];
      cluster = await startRoutedCluster({ images, nodes: POOLS.length, controllers: true, ...optionsOf(name) });
      await putIntoZones(cluster);
      await leadToPods(cluster);
      await standInForTheWorld(cluster);
      await startClusterDns(cluster);
    }, 300_000);
    afterAll(async () => {
      await cluster?.[Symbol.asyncDispose]();
      await rm(dir, { recursive: true, force: true });
    });

    it('are all in test/sig-network.json, each once', async () => {
      const all = await e2eTest(cluster, '-ginkgo.focus=\\[sig-network\\]', '-ginkgo.dry-run');
      expect(groups.flatMap(({ tests }) => tests).sort()).toEqual(all.passed.toSorted());
    });

    it('pass where that says so', async () => {
      const able = ['runs', ...((await hasSctp()) ? ['sctp'] : [])];
      const isMeant = ({ status, cluster: wanted = 'tunnels' }: Group): boolean =>
        able.includes(status) && ['every', name].includes(wanted);
      const meant = groups.filter(isMeant).flatMap(({ tests }) => tests.filter((test) => FOCUS.test(test)));
      const running = partOf(meant);
      const results = await runTests(cluster, running);
      for (const { failed, output } of results)
        if (failed.length > 0) process.stderr.write(`${output.slice(-30_000)}\n`);
      expect(results.flatMap(({ failed }) => failed)).toEqual([]);
      expect(results.flatMap(({ passed }) => passed).toSorted()).toEqual(running.toSorted());
    }, 10_800_000);
  },
);

function optionsOf(name: ClusterName): Pick<RoutedClusterOptions, 'datastore' | 'pools' | 'proxyMode'> {
  const { proxyMode, vxlanMode, datastore } = CLUSTERS[name];
  const pools = POOLS.flatMap((ranges, index) => {
    const node = nodeNameOf(index);
    const nodeSelector = `kubernetes.io/hostname == '${node}'`;
    const spec = { vxlanMode, natOutgoing: true, nodeSelector };
    return Object.entries(ranges).map(([family, cidr]) => [`${node}-${family}`, { cidr, ...spec }] as const);
  });
  return { pools: Object.fromEntries(pools), proxyMode, datastore };
}

function nodeNameOf(index: number): string {
  return `node-${'abc'.charAt(index)}`;
}

/** Each node is a zone of its own. */
async function putIntoZones({ nodes, kubectl }: Cluster): Promise<void> {
  for (const { name } of nodes) await kubectl('label', 'node', name, `topology.kubernetes.io/zone=zone-of-${name}`);
}

/** The control plane runs no pods and so has no agent. A way by another node would be one way only: rules refuse it. */
async function leadToPods({ control, nodes }: Cluster): Promise<void> {
  for (const [index, { ipv4, ipv6 }] of POOLS.entries()) {
    const { addresses } = nodes[index]!;
    await control.exec('ip', 'route', 'add', ipv4, 'via', addresses.ipv4);
    await control.exec('ip', '-6', 'route', 'add', ipv6, 'via', addresses.ipv6);
  }
}

/** Hosts of the Internet that tests ask: one over HTTP from beside the API server, one by the name of its address. */
async function standInForTheWorld({ control, nodes }: Cluster): Promise<void> {
  const own = ['--user=root', '--pid-file', '--conf-file=/dev/null', '--no-resolv', '--no-hosts'];
  await control.start(['dnsmasq', '--keep-in-foreground', ...own, '--host-record=dns.google,8.8.8.8']);
  const [address = ''] = (await control.exec('hostname', '-I')).split(' ');
  for (const { machine } of nodes) await machine.exec('sh', '-c', `echo 'nameserver ${address}' > /etc/resolv.conf`);
  const page = join(control.dir, 'world');
  await control.exec('sh', '-c', 'mkdir "$0" && echo here > "$0/index.html"', page);
  await control.exec('sh', '-c', "echo '127.0.0.1 localhost google.com' > /etc/hosts");
  await control.start(['busybox', 'httpd', '-f', '-p', '127.0.0.1:80', '-h', page]);
}

/**
 * Runs the tests, several processes at a time, because they wait for their pods most of the time. Tests that Kubernetes
 * calls serial or disruptive come after the others, one by one.
 */
async function runTests(cluster: Cluster, tests: readonly string[]): Promise<E2eResult[]> {
  const results: E2eResult[] = [];
  const isAlone = (name: string): boolean => /\[(Serial|Disruptive)\]/.test(name);
  const beside = tests.filter((name) => !isAlone(name));
  const batches = Array.from({ length: Math.ceil(beside.length / BATCH) }, (_, index) =>
    beside.slice(index * BATCH, (index + 1) * BATCH),
  );
  const work = async (): Promise<void> => {
    for (let batch = batches.shift(); batch !== undefined; batch = batches.shift())
      results.push(await e2eTest(cluster, focusOn(batch)));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const alone = tests.filter(isAlone);
  if (alone.length > 0) results.push(await e2eTest(cluster, focusOn(alone)));
  return results;
}

/**
 * The image that most pods of the tests are made from: the program with those of other packages beside it, a shell that
 * runs them rather than what busybox has under the same names, and a certificate.
 */
async function makeAgnhost(folder: string): Promise<string> {
  using tls = makeTlsFolder();
  const { certFile, keyFile } = tls.authority('agnhost').issue('localhost', ['localhost']);
  const beside = ['curl', 'dig', 'getent', 'ss', 'wget'].map((name) => `/usr/bin/${name}`);
  return await makeImage(folder, {
    names: AGNHOST,
    config: { Entrypoint: ['/agnhost'], Cmd: ['pause'], Env: ['PATH=/usr/sbin:/usr/bin:/sbin:/bin'] },
    files: {
      ...Object.fromEntries(beside.map((path) => [path, path])),
      '/agnhost': program('agnhost'),
      '/coredns': program('coredns'),
      '/bin/bash': '/bin/bash',
      '/bin/sh': '/bin/dash',
      '/usr/bin/nc': '/bin/nc.openbsd',
      '/usr/sbin/conntrack': '/usr/sbin/conntrack',
      // Its servers find these in the folder that they are started in.
      '/localhost.crt': certFile,
      '/localhost.key': keyFile,
    },
  });
}

/** A server that answers with packets which a broken connection tracking lets through. */
async function makeConntrack(folder: string): Promise<string> {
  const server = program('regression-issue-74839');
  const config = { Entrypoint: ['/regression-issue-74839'] };
  return makeImage(folder, { names: CONNTRACK, config, files: { '/regression-issue-74839': server } });
}

/** Just these; what it compares begins with words of its own. */
function focusOn(tests: readonly string[]): string {
  return `-ginkgo.focus=(${tests.map((name) => name.replaceAll(/[^\w ]/g, String.raw`\$&`)).join('|')})$`;
}

/** Outcome of the tests that one run of e2e.test was asked for; what it skipped is in neither list. */
interface E2eResult {
  readonly passed: readonly string[];
  readonly failed: readonly string[];
  readonly output: string;
}

/** Runs it beside the API server, to its end. */
async function e2eTest({ api, control }: Cluster, ...args: string[]): Promise<E2eResult> {
  const report = join(api.dir, `report-${randomUUID()}.json`);
  const flags = {
    provider: 'skeleton',
    kubeconfig: api.kubeconfig,
    'kubectl-path': program('kubectl'),
    'allowed-not-ready-nodes': '0',
    minStartupPods: '0',
    'ginkgo.no-color': 'true',
    'ginkgo.json-report': report,
  };
  const given = Object.entries(flags).map(([name, value]) => `-${name}=${value}`);
  const { stdout, stderr } = await control.run([program('e2e.test'), ...given, ...args], { env: { HOME: api.dir } });
  const suites: readonly Json[] = JSON.parse(await readFile(report, 'utf8'));
  const specs = suites.flatMap(({ SpecReports }) => SpecReports).filter(({ LeafNodeType }) => LeafNodeType === 'It');
  const named = (isWanted: (state: string) => boolean): string[] =>
    specs
      .filter(({ State }) => isWanted(State))
      .map(({ ContainerHierarchyTexts, LeafNodeText }) => [...ContainerHierarchyTexts, LeafNodeText].join(' '));
  return {
    passed: named((state) => state === 'passed'),
    failed: named((state) => !['passed', 'skipped', 'pending'].includes(state)),
    output: `${stdout}${stderr}`,
  };
}
