// Kubernetes' own tests of its networks, on two nodes whose agents keep the network. test/sig-network.json says which run.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../support/cluster.ts';
import { serveNames } from '../support/cluster-names.ts';
import { makeImage } from '../support/image.ts';
import { removeAtEnd } from '../support/janitor.ts';
import { program } from '../support/components.ts';
import type { RunResult } from '../support/node.ts';
import { startRoutedCluster } from '../support/routed-cluster.ts';
import { makeTlsFolder } from '../support/tls.ts';

/** Tests that run, or wait, for the same reason. */
interface Group {
  /** `runs`, or what the tests wait for. */
  readonly status: string;
  readonly why: string;
  readonly tests: readonly string[];
}

/** It can do what is asked of the other one, too: wait. */
const AGNHOST = ['k8s.gcr.io/e2e-test-images/agnhost:2.21', 'k8s.gcr.io/pause:3.2'];
/** Each node has pools of its own, so that who has no agent can have routes, too. */
const POOLS = [
  { ipv4: '10.83.0.0/17', ipv6: 'fd00:83::/65' },
  { ipv4: '10.83.128.0/17', ipv6: 'fd00:83:0:0:8000::/65' },
];
/** Groups that run beside each other. */
const AT_ONCE = 5;
const SOAK = process.env['NETPLUG_SOAK'] === '1';

describe.runIf(SOAK)('the tests of Kubernetes for networks (take minutes, so only with NETPLUG_SOAK=1)', () => {
  let dir: string;
  let cluster: Cluster;
  let groups: readonly Group[];
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'netplug-sig-network-'));
    removeAtEnd('folder', dir);
    groups = JSON.parse(await readFile(join(import.meta.dirname, '../sig-network.json'), 'utf8'));
    cluster = await startRoutedCluster({ images: [await makeAgnhost(join(dir, 'agnhost'))], pools: poolsByName() });
    await leadToPods(cluster);
    await standInForTheWorld(cluster);
    await serveNames(cluster);
  }, 240_000);
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]();
    await rm(dir, { recursive: true, force: true });
  });

  it('are all in test/sig-network.json, each once', async () => {
    const { stdout } = await e2eTest(cluster, '-ginkgo.focus=\\[sig-network\\]', '-ginkgo.dryRun');
    expect(groups.flatMap(({ tests }) => tests).sort()).toEqual(named(stdout, 'PASSED').sort());
  });

  it('pass where that says so', async () => {
    const running = groups.filter(({ status }) => status === 'runs');
    const results = await runGroups(cluster, running);
    const passed = results.map(({ stdout }) => named(stdout, 'PASSED').sort());
    for (const [index, { stdout, stderr }] of results.entries()) {
      const isComplete = passed[index]!.length === running[index]!.tests.length;
      if (!isComplete) process.stderr.write(`${stdout.slice(-20_000)}${stderr.slice(-2000)}\n`);
    }
    expect(results.flatMap(({ stdout }) => named(stdout, 'FAILED'))).toEqual([]);
    expect(passed).toEqual(running.map(({ tests }) => tests.toSorted()));
  }, 1_800_000);
});

function poolsByName(): Readonly<Record<string, object>> {
  const pools = POOLS.flatMap((ranges, index) => {
    const node = `node-${'ab'.charAt(index)}`;
    const nodeSelector = `kubernetes.io/hostname == '${node}'`;
    const spec = { vxlanMode: 'Always', natOutgoing: true, nodeSelector };
    return Object.entries(ranges).map(([family, cidr]) => [`${node}-${family}`, { cidr, ...spec }] as const);
  });
  return Object.fromEntries(pools);
}

/** The control plane runs no pods and so has no agent. A way by another node would be one way only: rules refuse it. */
async function leadToPods({ control, nodes }: Cluster): Promise<void> {
  for (const [index, { ipv4, ipv6 }] of POOLS.entries()) {
    const { addresses } = nodes[index]!;
    await control.exec('ip', 'route', 'add', ipv4, 'via', addresses.ipv4);
    await control.exec('ip', '-6', 'route', 'add', ipv6, 'via', addresses.ipv6);
  }
}

/** Before many tests of services, somebody must answer beside the API server under a name of the world. */
async function standInForTheWorld({ control }: Cluster): Promise<void> {
  const page = join(control.dir, 'world');
  await control.exec('sh', '-c', 'mkdir "$0" && echo here > "$0/index.html"', page);
  await control.exec('sh', '-c', "echo '127.0.0.1 localhost google.com' > /etc/hosts");
  await control.start(['busybox', 'httpd', '-f', '-p', '127.0.0.1:80', '-h', page]);
}

/**
 * Groups beside each other, for the time that they wait for their pods; tests of a group one after the other, because
 * some want no other of their kind. Groups with tests that Kubernetes calls serial come after that, each alone.
 */
async function runGroups(cluster: Cluster, groups: readonly Group[]): Promise<RunResult[]> {
  const results: RunResult[] = [];
  const runAll = async (queue: [number, Group][]): Promise<void> => {
    for (let entry = queue.shift(); entry !== undefined; entry = queue.shift()) {
      const [index, { tests }] = entry;
      results[index] = await e2eTest(cluster, focusOn(tests));
    }
  };
  const isSerial = ([, { tests }]: [number, Group]): boolean => tests.some((name) => name.includes('[Serial]'));
  const beside = [...groups.entries()].filter((entry) => !isSerial(entry));
  await Promise.all(Array.from({ length: AT_ONCE }, async () => runAll(beside)));
  await runAll([...groups.entries()].filter(isSerial));
  return results;
}

/**
 * The image that most pods of the tests are made from: the program with curl, wget and nc beside it, a shell that runs those
 * rather than what busybox has under the same names, and a certificate.
 */
async function makeAgnhost(folder: string): Promise<string> {
  using tls = makeTlsFolder();
  const { certFile, keyFile } = tls.authority('agnhost').issue('localhost', ['localhost']);
  return await makeImage(folder, {
    names: AGNHOST,
    config: { Entrypoint: ['/agnhost'], Cmd: ['pause'], Env: ['PATH=/usr/sbin:/usr/bin:/sbin:/bin'] },
    files: {
      '/agnhost': program('agnhost'),
      '/bin/sh': '/bin/dash',
      '/usr/bin/curl': '/usr/bin/curl',
      '/usr/bin/nc': '/bin/nc.openbsd',
      '/usr/bin/wget': '/usr/bin/wget',
      // Its servers find these in the folder that they are started in.
      '/localhost.crt': certFile,
      '/localhost.key': keyFile,
    },
  });
}

/** Just these; what it compares begins with words of its own. */
function focusOn(tests: readonly string[]): string {
  return `-ginkgo.focus=(${tests.map((name) => name.replaceAll(/[^\w ]/g, String.raw`\$&`)).join('|')})$`;
}

/** Runs it beside the API server, to its end. */
async function e2eTest({ api, control }: Cluster, ...args: string[]): Promise<RunResult> {
  const flags = {
    provider: 'skeleton',
    kubeconfig: api.kubeconfig,
    'kubectl-path': program('kubectl'),
    'allowed-not-ready-nodes': '0',
    minStartupPods: '0',
    'ginkgo.noColor': 'true',
  };
  const given = Object.entries(flags).map(([name, value]) => `-${name}=${value}`);
  return control.run([program('e2e.test'), ...given, ...args], { env: { HOME: api.dir } });
}

/** The tests that it says have PASSED or FAILED, a line each. */
function named(output: string, outcome: 'PASSED' | 'FAILED'): string[] {
  return [...output.matchAll(/\{"msg":"(?:[^"\\]|\\.)*".*\}$/gm)].flatMap(([line]) => {
    const { msg }: { msg: string } = JSON.parse(line);
    return msg.startsWith(`${outcome} `) ? [msg.slice(outcome.length + 1)] : [];
  });
}
