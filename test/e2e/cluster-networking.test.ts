// Pods of two nodes of a real Kubernetes reach each other, services and the world, with agents that keep the network.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAddress } from '../../src/net/address.ts';
import { cidrContains, parseCidr } from '../../src/net/cidr.ts';
import { runsHere } from '../runs.ts';
import { releaseOf } from '../support/components.ts';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { type Json, until } from '../support/node.ts';
import { startRoutedCluster } from '../support/routed-cluster.ts';
import { NETPLUGCTL } from '../support/built.ts';

/** What the API server says of itself. */
const VERSION = `"gitVersion": "v${releaseOf('kube-apiserver')}"`;

const OTHERS = runsHere('e2e/cluster-networking: other datastores and pod CIDRs');
const VXLAN = { vxlanMode: 'Always', natOutgoing: true };
const CURL = ['curl', '--silent', '--show-error', '--max-time', '3'] as const;
const PORT = 8080;
const HOST_PORT = 31_080;
const FLOATING = '10.84.0.200';
const UNMANAGED = '10.84.0.210';

interface PodOptions {
  readonly name: string;
  /** Index of its node. */
  readonly on: number;
  readonly command?: readonly string[];
  readonly hostPort?: number;
  /** Without the prefix. */
  readonly annotations?: Readonly<Record<string, string>>;
}

/** A pod that says its name to everybody who asks over HTTP, unless it has something else to do. */
function podOf(cluster: Cluster, { name, on, command, hostPort, annotations = {} }: PodOptions): object {
  const serve = `echo ${name} > /tmp/index.html; exec httpd -f -p ${String(PORT)} -h /tmp`;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      labels: { app: name },
      annotations: Object.fromEntries(Object.entries(annotations).map(([key, text]) => [`cni.netplug/${key}`, text])),
    },
    spec: {
      nodeName: cluster.node(on).name,
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: 0,
      containers: [
        {
          name: 'main',
          image: 'busybox:1.35',
          command: command ?? ['sh', '-c', serve],
          ports: [{ containerPort: PORT, ...(hostPort === undefined ? {} : { hostPort }) }],
        },
      ],
    },
  };
}

async function start(cluster: Cluster, options: PodOptions): Promise<Json> {
  await cluster.apply([podOf(cluster, options)]);
  const [pod] = await cluster.waitForPodsReady({ selector: `app=${options.name}`, count: 1 });
  return pod;
}

function ipsOf({ status }: Json): string[] {
  return status.podIPs.map(({ ip }: Json) => ip);
}

/** The addresses of the pod, as its node has recorded them. */
async function recordedOf(cluster: Cluster, pod: string): Promise<string[]> {
  const listed = await cluster.kubectl('get', 'workloadendpoints.netplug.io', '--output=json');
  const { items } = JSON.parse(listed);
  const record = items.find(({ spec }: Json) => spec.pod === pod && spec.endpoint === 'eth0');
  return (record?.spec.ipNetworks ?? []).map((text: string) => text.split('/')[0]);
}

/** What answers at the address and port, asked for inside the pod. */
async function fetchIn(cluster: Cluster, pod: string, address: string, port = PORT): Promise<string> {
  return cluster.kubectl('exec', pod, '--', ...CURL, urlOf(address, port));
}

/** The same for what answers only after another program has observed it. */
async function expectAnswer(ask: () => Promise<string>, answer: string): Promise<void> {
  let last = '';
  await until(
    async () => (last = await ask().catch(String)) === `${answer}\n`,
    () => `${answer} answers: ${last}`,
    60_000,
    500,
  );
  expect(last).toBe(`${answer}\n`);
}

/** Packets are dropped: curl gives up by itself. */
async function expectSilence(ask: () => Promise<string>): Promise<void> {
  let last = '';
  const isSilent = async (): Promise<boolean> => {
    last = await ask().catch(String);
    return /exit code 28\b/.test(last);
  };
  await until(isSilent, () => `there is no answer: ${last}`, 60_000, 500);
  expect(last).toContain('exit code 28');
}

function policyOf(name: string, matchLabels: Readonly<Record<string, string>>, ingress: readonly object[]): object {
  const spec = { podSelector: { matchLabels }, policyTypes: ['Ingress'], ingress };
  return { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', metadata: { name }, spec };
}

/** Starts a pod on each of two nodes, and returns their addresses. */
async function expectMutualAnswers(cluster: Cluster): Promise<string[]> {
  const [a, b] = await Promise.all([
    start(cluster, { name: 'web-a', on: 0 }),
    start(cluster, { name: 'web-b', on: 1 }),
  ]);
  for (const ip of ipsOf(b)) await expectAnswer(async () => fetchIn(cluster, 'web-a', ip), 'web-b');
  for (const ip of ipsOf(a)) await expectAnswer(async () => fetchIn(cluster, 'web-b', ip), 'web-a');
  return [...ipsOf(a), ...ipsOf(b)];
}

function urlOf(address: string, port: number): string {
  return `http://${address.includes(':') ? `[${address}]` : address}:${String(port)}/`;
}

describe('a cluster with agents that provide the network', () => {
  let cluster: Cluster;
  let pods: Readonly<Record<'a' | 'b', Json>>;
  let service: Json;
  beforeAll(async () => {
    cluster = await startRoutedCluster({
      pools: {
        'default-ipv4': { cidr: '10.83.0.0/16', ...VXLAN },
        'default-ipv6': { cidr: 'fd00:83::/64', ...VXLAN },
        outside: { cidr: '10.84.0.0/24', nodeSelector: '!all()' },
      },
    });
    const [a, b] = await Promise.all([
      start(cluster, { name: 'web-a', on: 0 }),
      start(cluster, { name: 'web-b', on: 1, hostPort: HOST_PORT }),
    ]);
    pods = { a, b };
    await cluster.apply(
      ['IPv4', 'IPv6'].map((family) => ({
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: `web-${family.toLowerCase()}` },
        spec: { type: 'NodePort', ipFamilies: [family], selector: { app: 'web-b' }, ports: [{ port: PORT }] },
      })),
    );
    service = await cluster.get('service', 'web-ipv4');
  }, 240_000);
  afterAll(async () => cluster?.[Symbol.asyncDispose]());

  const curlOn = async (node: number, address: string, port = PORT): Promise<string> =>
    cluster.node(node).machine.exec(...CURL, urlOf(address, port));
  const curlOutside = async (address: string, port: number): Promise<string> =>
    cluster.lan.netns.exec(...CURL, urlOf(address, port));

  it('reports for every node that its network works, and its addresses', async () => {
    for (const { name, addresses } of cluster.nodes) {
      const { metadata, status } = await cluster.get('node', name);
      expect(status.conditions).toContainEqual(
        expect.objectContaining({ type: 'NetworkUnavailable', status: 'False', reason: 'NetplugIsUp' }),
      );
      expect(metadata.annotations).toMatchObject({
        'netplug/IPv4Address': `${addresses.ipv4}/24`,
        'netplug/IPv6Address': `${addresses.ipv6}/64`,
        'netplug/IPv4VXLANTunnelAddr': expect.stringMatching(/^10\.83\./),
        'netplug/IPv6VXLANTunnelAddr': expect.stringMatching(/^fd00:83::/),
        'netplug/VXLANTunnelMACAddr': expect.any(String),
      });
    }
  });

  it('has a NetplugNode of each node, which the garbage collector removes with the Node', async () => {
    const published = async (): Promise<string[]> => {
      const { items } = await cluster.get('netplugnodes');
      return items.map(({ metadata }: Json) => metadata.name).sort();
    };
    const names = cluster.nodes.map(({ name }) => name).sort();
    expect(await published()).toEqual(names);
    await cluster.apply([{ apiVersion: 'v1', kind: 'Node', metadata: { name: 'removed' } }]);
    const { uid } = (await cluster.get('node', 'removed')).metadata;
    const metadata = { name: 'removed', ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'removed', uid }] };
    await cluster.apply([{ apiVersion: 'netplug.io/v3', kind: 'NetplugNode', metadata, spec: {} }]);
    expect(await published()).toContain('removed');
    await cluster.kubectl('delete', 'node', 'removed');
    await until(async () => !(await published()).includes('removed'), 'the NetplugNode is removed', 90_000);
    expect(await published()).toEqual(names);
  });

  it('lets pods of both nodes reach each other in both families, and nodes the pods of the other', async () => {
    for (const ip of ipsOf(pods.b)) {
      await expectAnswer(async () => fetchIn(cluster, 'web-a', ip), 'web-b');
      await expectAnswer(async () => curlOn(0, ip), 'web-b');
    }
    for (const ip of ipsOf(pods.a)) {
      await expectAnswer(async () => fetchIn(cluster, 'web-b', ip), 'web-a');
      await expectAnswer(async () => curlOn(1, ip), 'web-a');
    }
  });

  it.each(['web-ipv4', 'web-ipv6'])(
    'leads from pods and nodes to the pod of service %s on the other node',
    async (name) => {
      const { spec } = await cluster.get('service', name);
      await expectAnswer(async () => fetchIn(cluster, 'web-a', spec.clusterIP), 'web-b');
      await expectAnswer(async () => curlOn(0, spec.clusterIP), 'web-b');
      // From the pod behind it to itself.
      await expectAnswer(async () => fetchIn(cluster, 'web-b', spec.clusterIP), 'web-b');
    },
  );

  it('leads from a NodePort of either node to the pod, from outside and from pods', async () => {
    const { nodePort } = service.spec.ports[0];
    for (const { addresses } of cluster.nodes) {
      await expectAnswer(async () => curlOutside(addresses.ipv4, nodePort), 'web-b');
      await expectAnswer(async () => fetchIn(cluster, 'web-a', addresses.ipv4, nodePort), 'web-b');
    }
  });

  it('leads from a host port to its pod, from outside, from the other node and from its pods', async () => {
    const { ipv4 } = cluster.node(1).addresses;
    await expectAnswer(async () => curlOutside(ipv4, HOST_PORT), 'web-b');
    await expectAnswer(async () => curlOn(0, ipv4, HOST_PORT), 'web-b');
    await expectAnswer(async () => fetchIn(cluster, 'web-a', ipv4, HOST_PORT), 'web-b');
  });

  it('enforces network policies of Kubernetes: directly, through services, and until they are deleted', async () => {
    await Promise.all([start(cluster, { name: 'stranger-a', on: 0 }), start(cluster, { name: 'stranger-b', on: 1 })]);
    const ways = [...ipsOf(pods.b), service.spec.clusterIP];
    const strangers = ['stranger-a', 'stranger-b'];
    await cluster.apply([
      policyOf('closed', { app: 'web-b' }, []),
      policyOf('from-web-a', { app: 'web-b' }, [{ from: [{ podSelector: { matchLabels: { app: 'web-a' } } }] }]),
    ]);
    for (const way of ways) {
      for (const pod of strangers) await expectSilence(async () => fetchIn(cluster, pod, way));
      await expectAnswer(async () => fetchIn(cluster, 'web-a', way), 'web-b');
    }
    // The kubelet of the pod's node, as a probe.
    await expectAnswer(async () => curlOn(1, ipsOf(pods.b)[0] ?? ''), 'web-b');
    await cluster.kubectl('label', 'pod', 'stranger-a', 'app=web-a', '--overwrite');
    await expectAnswer(async () => fetchIn(cluster, 'stranger-a', ipsOf(pods.b)[0] ?? ''), 'web-b');
    await cluster.kubectl('delete', 'networkpolicy', 'closed', 'from-web-a');
    for (const way of ways) await expectAnswer(async () => fetchIn(cluster, 'stranger-b', way), 'web-b');
    await cluster.kubectl('delete', 'pod', ...strangers);
  });

  it('takes a node for its addresses in policies though it sends through a tunnel, as policy why says', async () => {
    const { addresses } = cluster.node(0);
    const from = [addresses.ipv4, `${addresses.ipv6}/128`].map((cidr) => ({
      ipBlock: { cidr: cidr.includes('/') ? cidr : `${cidr}/32` },
    }));
    await cluster.apply([policyOf('from-node-a', { app: 'web-b' }, [{ from }])]);
    for (const ip of ipsOf(pods.b)) {
      await expectSilence(async () => fetchIn(cluster, 'web-a', ip));
      await expectAnswer(async () => curlOn(0, ip), 'web-b');
    }
    const why = ['policy', 'why', 'host/node-a', 'default/web-b', '--port', String(PORT), '-o', 'json'];
    const env = { KUBECONFIG: cluster.api.kubeconfig, DATASTORE_TYPE: 'orch' };
    const { status, stdout } = await cluster.node(0).machine.run([NETPLUGCTL, ...why], { env });
    expect([status, JSON.parse(stdout).connections.map(({ verdict }: Json) => verdict)]).toEqual([
      0,
      ['allow', 'allow'],
    ]);
    await cluster.kubectl('delete', 'networkpolicy', 'from-node-a');
  });

  it('has policy why say what becomes of a packet to a service, also by a node and back to its own pod', async () => {
    const { clusterIP, ports } = service.spec;
    const { name } = service.metadata;
    const { nodePort } = ports[0];
    const toNode = cluster.node(1).addresses.ipv4;
    const [direct = ''] = ipsOf(pods.b);
    const explained = async (from: string, to: string, ...more: string[]): Promise<Json> => {
      const argv = [NETPLUGCTL, 'policy', 'why', from, to, '-o', 'json', ...more];
      const env = { KUBECONFIG: cluster.api.kubeconfig, DATASTORE_TYPE: 'orch' };
      const { stdout, stderr } = await cluster.node(0).machine.run(argv, { env });
      return stdout === '' ? { verdict: stderr } : JSON.parse(stdout);
    };
    const why = async (from: string, to: string, port = PORT): Promise<string> =>
      (await explained(from, to, '--port', String(port))).verdict;
    const probed = await explained('default/web-a', 'default/web-b', '--port', String(PORT), '--probe');
    expect(probed).toMatchObject({ connections: [{ probe: { outcome: 'agrees' } }, { probe: { outcome: 'agrees' } }] });
    await cluster.apply([
      policyOf('closed', { app: 'web-b' }, [{ from: [{ podSelector: { matchLabels: { app: 'web-a' } } }] }]),
    ]);
    await expectSilence(async () => fetchIn(cluster, 'web-b', clusterIP));
    await expectAnswer(async () => fetchIn(cluster, 'web-b', direct), 'web-b');
    await expectAnswer(async () => fetchIn(cluster, 'web-a', clusterIP), 'web-b');
    await expectSilence(async () => fetchIn(cluster, 'web-a', toNode, nodePort));
    expect([
      await why('default/web-b', `svc/default/${name}`),
      await why('default/web-b', 'default/web-b'),
      await why('default/web-a', clusterIP),
      await why('default/web-a', toNode, nodePort),
    ]).toEqual(['deny', 'allow', 'allow', 'deny']);

    // The pod's node sends it with its own address to another node, and by the tunnel with that of the tunnel.
    const { machine, addresses } = cluster.node(0);
    const [device] = JSON.parse(await machine.exec('ip', '-j', '-4', 'address', 'show', 'dev', 'vxlan.netplug'));
    const tunnel: string = device.addr_info[0].local;
    await cluster.apply([policyOf('closed', { app: 'web-b' }, [{ from: [{ ipBlock: { cidr: `${tunnel}/32` } }] }])]);
    await expectAnswer(async () => curlOn(0, direct), 'web-b');
    await expectSilence(async () => fetchIn(cluster, 'web-a', toNode, nodePort));
    expect([await why('host/node-a', direct), await why('default/web-a', toNode, nodePort)]).toEqual(['allow', 'deny']);
    await cluster.apply([
      policyOf('closed', { app: 'web-b' }, [{ from: [{ ipBlock: { cidr: `${addresses.ipv4}/32` } }] }]),
    ]);
    await expectAnswer(async () => fetchIn(cluster, 'web-a', toNode, nodePort), 'web-b');
    await expectSilence(async () => fetchIn(cluster, 'web-a', clusterIP));
    expect([await why('default/web-a', toNode, nodePort), await why('default/web-a', clusterIP)]).toEqual([
      'allow',
      'deny',
    ]);
    await cluster.kubectl('delete', 'networkpolicy', 'closed');
  });

  it('passes nothing on to a pod that comes beside the tunnel with the address of a pod or a tunnel', async () => {
    const { machine, addresses } = cluster.node(1);
    const outside = cluster.lan.netns;
    const { metadata } = await cluster.get('node', 'node-a');
    await machine.exec('nft', 'table inet seen { chain passed { type filter hook postrouting priority 300; }; }');
    for (const [index, family] of (['ipv4', 'ipv6'] as const).entries()) {
      const [link, bits] = family === 'ipv4' ? ['-4', '32'] : ['-6', '128'];
      const to = ipsOf(pods.b)[index] ?? '';
      const tunnel =
        metadata.annotations[family === 'ipv4' ? 'netplug/IPv4VXLANTunnelAddr' : 'netplug/IPv6VXLANTunnelAddr'];
      await outside.exec('ip', link, 'route', 'add', to, 'via', addresses[family]);
      for (const forged of [ipsOf(pods.a)[index] ?? '', tunnel, undefined]) {
        const echo = `${family === 'ipv4' ? 'icmp' : 'icmpv6'} type echo-request`;
        await machine.exec(
          'nft',
          `flush chain inet seen passed; add rule inet seen passed oifname "npl*" ${echo} counter`,
        );
        if (forged !== undefined) await outside.exec('ip', link, 'address', 'add', `${forged}/${bits}`, 'dev', 'lo');
        const as = forged === undefined ? [] : ['-I', forged];
        await outside.exec('ping', '-n', '-c', '1', '-W', '1', ...as, to).catch(() => undefined);
        const seen = await machine.exec('nft', 'list', 'chain', 'inet', 'seen', 'passed');
        expect([forged, !seen.includes('packets 0 ')]).toEqual([forged, forged === undefined]);
        if (forged !== undefined) await outside.exec('ip', link, 'address', 'del', `${forged}/${bits}`, 'dev', 'lo');
      }
      await outside.exec('ip', link, 'route', 'del', to);
    }
    await machine.exec('nft', 'delete', 'table', 'inet', 'seen');
  });

  it('lets pods reach the API server, which has no route to pods', async () => {
    for (const pod of ['web-a', 'web-b']) {
      const ask = [...CURL, '--insecure', 'https://10.96.0.1/version'];
      expect(await cluster.kubectl('exec', pod, '--', ...ask)).toContain(VERSION);
    }
  });

  it('announces floating IPs and addresses of ipAddrsNoIpam in a pool in BGP mode [ann-floating] [ann-addresses]', async () => {
    await Promise.all([
      start(cluster, { name: 'floating', on: 1, annotations: { floatingIPs: JSON.stringify([FLOATING]) } }),
      start(cluster, { name: 'unmanaged', on: 1, annotations: { ipAddrsNoIpam: JSON.stringify([UNMANAGED]) } }),
    ]);
    for (const [address, name] of [
      [FLOATING, 'floating'],
      [UNMANAGED, 'unmanaged'],
    ] as const) {
      await expectAnswer(async () => fetchIn(cluster, 'web-b', address), name);
      await expectAnswer(async () => fetchIn(cluster, 'web-a', address), name);
      await expectAnswer(async () => curlOn(0, address), name);
    }
  });

  it('ignores forged annotations in the form of notes of netplug, and continues to serve other pods', async () => {
    const [stolen, announced, later] = ['10.84.0.66', '10.84.0.77', '10.84.0.201'];
    const note = (ifName: string, more: object): string =>
      JSON.stringify({
        id: 'mine',
        network: 'k8s-pod-network',
        containerID: 'mine',
        endpoint: ifName,
        interfaceName: 'npl0123456789a',
        mac: '0a:00:00:00:00:01',
        ipNetworks: [`${announced}/32`],
        profiles: [],
        ipam: 'none',
        ipNATs: [{ internalIP: ipsOf(pods.b)[0], externalIP: stolen }],
        ...more,
      });
    const hostile = {
      'endpoint.net1': note('net1', {}),
      'endpoint.net2': note('net2', { ipNetworks: ['not an address'] }),
      'endpoint.net3': '{"network":',
      'endpoint.net4': note('net4', { profiles: ['x'.repeat(100_000)] }),
    };
    await start(cluster, { name: 'hostile', on: 1, annotations: hostile });
    // After ADD as well.
    const forged = [`cni.netplug/endpoint.eth0=${note('eth0', {})}`, `cni.netplug/podIPs=${announced}/32`];
    await cluster.kubectl('annotate', '--overwrite', 'pod', 'hostile', ...forged);

    // As much as the API server takes; what "kubectl apply" would add is too much.
    const huge = podOf(cluster, {
      name: 'huge',
      on: 1,
      annotations: { huge: 'x'.repeat(262_144 - 'cni.netplug/huge'.length) },
    });
    const file = join(cluster.api.dir, 'huge.json');
    await writeFile(file, JSON.stringify(huge));
    await Promise.all([
      cluster.kubectl('create', '-f', file),
      start(cluster, { name: 'later', on: 1, annotations: { floatingIPs: JSON.stringify([later]) } }),
    ]);
    await cluster.waitForPodsReady({ selector: 'app=huge', count: 1 });
    for (const pod of ['huge', 'later', 'hostile'])
      await until(
        async () => isDeepStrictEqual(await recordedOf(cluster, pod), ipsOf(await cluster.get('pod', pod))),
        `its node has recorded ${pod}`,
      );
    await expectAnswer(async () => fetchIn(cluster, 'web-a', later), 'later');
    await expectAnswer(async () => fetchIn(cluster, 'web-a', FLOATING), 'floating');
    const table = await cluster.node(1).machine.exec('nft', 'list', 'table', 'inet', 'netplug-nat');
    expect(table).toContain(later);
    expect(table).not.toContain(stolen);
    const learned = await cluster.node(0).machine.exec('ip', '-4', 'route', 'show');
    expect(learned).toContain(later);
    expect(learned).not.toContain(stolen);
    expect(learned).not.toContain(announced);
    await cluster.kubectl('delete', 'pod', 'later', 'hostile', 'huge');
    await until(
      async () => !(await cluster.node(1).machine.exec('nft', 'list', 'table', 'inet', 'netplug-nat')).includes(later),
      'a floating IP goes with its pod',
    );
  });

  it('translates floating IPs after the agent was killed, also of pods that were started without one', async () => {
    const node = cluster.node(1);
    const alone = '10.84.0.202';
    await node.agent()?.stop('KILL');
    await start(cluster, { name: 'alone', on: 1, annotations: { floatingIPs: JSON.stringify([alone]) } });
    await node.startAgent();
    await expectAnswer(async () => fetchIn(cluster, 'web-a', alone), 'alone');
    await expectAnswer(async () => fetchIn(cluster, 'web-a', FLOATING), 'floating');
    await cluster.kubectl('delete', 'pod', 'alone');
  });

  it('shows it all in netplugctl node status', async () => {
    const env = { NETPLUG_SOCKET: '/run/netplug/cni.sock' };
    const { machine, addresses } = cluster.node(0);
    const { status, stdout } = await machine.run([NETPLUGCTL, 'node', 'status', '-o', 'json'], { env });
    expect(JSON.parse(stdout)).toMatchObject({
      node: 'node-a',
      nodes: 2,
      addresses: [
        { address: `${addresses.ipv4}/24`, device: 'eth0' },
        { address: `${addresses.ipv6}/64`, device: 'eth0' },
      ],
      pools: [
        { name: 'default-ipv4', mode: 'VXLAN Always' },
        { name: 'default-ipv6', mode: 'VXLAN Always' },
        { name: 'outside', mode: 'BGP' },
      ],
      problems: [],
    });
    expect(JSON.parse(stdout).bgp).toContainEqual(
      expect.objectContaining({ peer: cluster.node(1).addresses.ipv4, kind: 'mesh', state: 'Established' }),
    );
    expect(status).toBe(0);
  });

  it('loses no packet between pods while the API server is killed and restarted', async () => {
    const [ipv4 = '', ipv6 = ''] = ipsOf(pods.b);
    for (const [name, ip] of [
      ['pinger-4', ipv4],
      ['pinger-6', ipv6],
    ] as const) {
      await start(cluster, { name, on: 0, command: ['ping', '-i', '0.1', ip] });
    }
    await cluster.api.restart();
    for (const pod of ['pinger-4', 'pinger-6']) {
      // Ended with the container that it ends, now and then before it can say that it has.
      await cluster.kubectl('exec', pod, '--', 'kill', '-INT', '1').catch(() => undefined);
      await until(async () => (await cluster.get('pod', pod)).status.phase === 'Succeeded', `${pod} has ended`);
      const log = await cluster.kubectl('logs', pod);
      // The last may have been on its way.
      const answered = [...log.matchAll(/ seq=(\d+) /g)].map(([, sequence]) => Number(sequence));
      expect(answered).toEqual(answered.map((_, index) => index));
      expect(answered.length).toBeGreaterThan(20);
    }
  });
});

describe.runIf(OTHERS)('a cluster with agents that provide the network, with records in etcd', () => {
  it('lets pods of both nodes reach each other, and the API server, with kube-proxy in iptables mode', async () => {
    await using cluster = await startCluster({ networking: {}, poolSpec: VXLAN, proxyMode: 'iptables' });
    await expectMutualAnswers(cluster);
    const ask = [...CURL, '--insecure', 'https://10.96.0.1/version'];
    expect(await cluster.kubectl('exec', 'web-b', '--', ...ask)).toContain(VERSION);
  }, 240_000);
});

describe.runIf(OTHERS)('a cluster with agents that route pod CIDRs', () => {
  it('connects pods of both nodes that have addresses of host-local [hl-podcidr-lookup]', async () => {
    await using cluster = await startRoutedCluster({
      networking: { USE_POD_CIDR: 'true' },
      pools: {
        'pods-ipv4': { cidr: '10.244.0.0/16', ...VXLAN },
        'pods-ipv6': { cidr: 'fd00:10:244::/48', ...VXLAN },
      },
      ipam: { type: 'host-local', ranges: [[{ subnet: 'usePodCidr' }], [{ subnet: 'usePodCidrIPv6' }]] },
    });
    const ips = await expectMutualAnswers(cluster);
    const { items } = await cluster.get('nodes');
    const cidrs: readonly string[] = items.flatMap(({ spec }: Json) => spec.podCIDRs);
    const isInRange = (ip: string): boolean => cidrs.some((cidr) => cidrContains(parseCidr(cidr), parseAddress(ip)));
    expect(ips.filter((ip) => !isInRange(ip))).toEqual([]);
  }, 240_000);
});
