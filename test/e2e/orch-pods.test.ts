// What the orchestrator knows of pods, namespaces and nodes, carried out by real kubelets.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Cluster, type ConflistNode, startCluster } from '../support/cluster.ts';
import type { Conflist } from '../support/chain.ts';
import { type Json, until } from '../support/node.ts';
import { giveAccess, KUBECONFIG } from '../support/orch-access.ts';

const ORCH = { policy: { type: 'orch' }, orch: { orchconfig: KUBECONFIG } };
const key = (name: string): string => `cni.netplug/${name}`;

function conflistOf(node: ConflistNode, more: object): Conflist {
  return {
    cniVersion: '1.0.0',
    name: 'k8s-pod-network',
    plugins: [
      node.netconf({ ...ORCH, ...more }),
      { type: 'portmap', snat: true, capabilities: { portMappings: true } },
      { type: 'bandwidth', capabilities: { bandwidth: true } },
    ],
  };
}

function podOf(
  name: string,
  more: { annotations?: Record<string, string>; namespace?: string; spec?: object } = {},
): Json {
  const { annotations = {}, namespace = 'default', spec = {} } = more;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, annotations, labels: { app: name, tier: 'web' } },
    spec: {
      terminationGracePeriodSeconds: 0,
      containers: [
        {
          name: 'main',
          image: 'busybox:1.35',
          command: ['sleep', '100000'],
          ports: [{ name: 'http', containerPort: 80 }],
        },
      ],
      ...spec,
    },
  };
}

describe('pods with policy.type "orch"', () => {
  let cluster: Cluster;
  beforeAll(async () => {
    const features = { feature_control: { ip_addrs_no_ipam: true, floating_ips: true } };
    const ipam = { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' };
    cluster = await startCluster({
      pools: { 'default-ipv4': '10.83.0.0/16', 'default-ipv6': 'fd00:83::/64', blue: '10.84.0.0/24' },
      conflist: (node) => conflistOf(node, { ipam, ...features }),
    });
    await giveAccess(cluster);
    // With a kv datastore plugin and agent only read.
    await cluster.kubectl('delete', 'clusterrolebinding', 'netplug-cni-datastore', 'netplug-agent-datastore');
    await cluster.kubectl('delete', 'rolebinding', 'netplug-agent-passwords', '--namespace=netplug-system');
  }, 240_000);
  afterAll(async () => cluster?.[Symbol.asyncDispose]());

  const start = async (pod: Json): Promise<Json> => {
    await cluster.apply([pod]);
    const { name, namespace } = pod.metadata;
    const [ready] = await cluster.waitForPodsReady({ namespace, selector: `app=${name}`, count: 1 });
    return ready;
  };
  const endpointOf = async (name: string): Promise<Json> => {
    const endpoints = await cluster.control.endpoints();
    return endpoints.find(({ spec }) => spec.pod === name);
  };
  const ipsOf = ({ status }: Json): string[] => status.podIPs.map(({ ip }: Json) => ip);

  it('put labels, service account, ports and profiles into the endpoint, with the right to read alone [svc-labels]', async () => {
    await start(podOf('labelled'));
    expect(await endpointOf('labelled')).toMatchObject({
      metadata: {
        labels: { app: 'labelled', tier: 'web', 'netplug/namespace': 'default', 'netplug/serviceaccount': 'default' },
      },
      spec: {
        profiles: ['kns.default', 'ksa.default.default'],
        serviceAccountName: 'default',
        ports: [{ name: 'http', protocol: 'TCP', port: 80 }],
      },
    });
  });

  it('take pools from the annotation of the pod, else of its namespace [ann-pools]', async () => {
    const annotations = { [key('ipv4pools')]: '["blue"]' };
    expect(ipsOf(await start(podOf('in-blue', { annotations })))[0]).toMatch(/^10\.84\.0\./);
    await cluster.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'blue-space', annotations } }]);
    await until(
      async () => (await cluster.get('serviceaccounts', '-n', 'blue-space')).items.length > 0,
      'the namespace is set up',
    );
    expect(ipsOf(await start(podOf('spaced', { namespace: 'blue-space' })))[0]).toMatch(/^10\.84\.0\./);
    const own = { [key('ipv4pools')]: '["10.83.0.0/16"]' };
    expect(ipsOf(await start(podOf('own', { namespace: 'blue-space', annotations: own })))[0]).toMatch(/^10\.83\./);
  });

  it('get the addresses they request, from the address manager or outside it [ann-addresses]', async () => {
    const asked = podOf('asked', { annotations: { [key('ipAddrs')]: '["10.83.9.9","fd00:83::99"]' } });
    expect(ipsOf(await start(asked))).toEqual(['10.83.9.9', 'fd00:83::99']);
    expect(await cluster.control.heldAddresses()).toContain('10.83.9.9');
    const past = podOf('past', { annotations: { [key('ipAddrsNoIpam')]: '["10.99.0.7"]' } });
    expect(ipsOf(await start(past))).toEqual(['10.99.0.7']);
    expect(await cluster.control.heldAddresses()).not.toContain('10.99.0.7');
    expect((await endpointOf('past')).spec.ipam).toBe('none');
  });

  it('record floating IPs with the address they stand for [ann-floating]', async () => {
    const pod = await start(podOf('floating', { annotations: { [key('floatingIPs')]: '["10.83.200.1"]' } }));
    expect((await endpointOf('floating')).spec.ipNATs).toEqual([
      { internalIP: ipsOf(pod)[0], externalIP: '10.83.200.1' },
    ]);
  });

  it('are warned in an event about floating IPs that no pool holds [ann-floating]', async () => {
    await start(podOf('drifting', { annotations: { [key('floatingIPs')]: '["192.0.2.9"]' } }));
    const { items } = await cluster.get('events', '--field-selector', 'involvedObject.name=drifting,type=Warning');
    expect(items.map(({ message }: Json) => message)).toContainEqual(
      expect.stringContaining('192.0.2.9 is outside every IP pool'),
    );
  });

  it.each([
    ['unknown-pool', { [key('ipv4pools')]: '["nowhere"]' }, 'no pool is named "nowhere"'],
    ['part-of-pool', { [key('ipv4pools')]: '["10.84.0.0/25"]' }, 'cni.netplug/ipv4pools'],
    ['no-json', { [key('ipAddrs')]: '10.83.1.1' }, 'JSON array of strings'],
    ['both', { [key('ipAddrs')]: '["10.83.1.1"]', [key('ipAddrsNoIpam')]: '["10.83.1.2"]' }, 'together with'],
    ['outside', { [key('ipAddrs')]: '["192.0.2.1"]' }, 'lies in no IP pool'],
  ])(
    'with a wrong annotation (%s) tell the one who wrote it, in an event [err-annotations]',
    async (name, annotations, words) => {
      await cluster.apply([podOf(name, { annotations })]);
      const events = async (): Promise<string[]> =>
        (await cluster.get('events', '--field-selector', `involvedObject.name=${name}`)).items.map(
          ({ message }: Json) => message,
        );
      let last: string[] = [];
      await until(
        async () => (last = await events()).some((message) => message.includes(words)),
        () => `an event says ${words}: ${JSON.stringify(last)}`,
      );
      expect(last.join()).toContain(words);
      await cluster.kubectl('delete', 'pod', name, '--wait=false');
    },
  );

  it('replaced under their name get their fixed address back at once', async () => {
    const annotations = { [key('ipAddrs')]: '["10.83.77.7"]' };
    const template = podOf('db', { annotations });
    const labels = { app: 'db' };
    await cluster.apply([
      {
        apiVersion: 'apps/v1',
        kind: 'StatefulSet',
        metadata: { name: 'db' },
        spec: {
          replicas: 1,
          serviceName: 'db',
          selector: { matchLabels: labels },
          template: { metadata: { labels, annotations }, spec: { ...template.spec, nodeName: cluster.node(0).name } },
        },
      },
    ]);
    const uidOf = async (): Promise<string> =>
      (await cluster.waitForPodsReady({ selector: 'app=db', count: 1 }))[0].metadata.uid;
    const first = await uidOf();
    await cluster.kubectl('delete', 'pod', 'db-0', '--wait=false');
    await until(async () => (await uidOf().catch(() => first)) !== first, 'the pod is replaced');
    const [again] = await cluster.waitForPodsReady({ selector: 'app=db', count: 1 });
    expect(ipsOf(again)[0]).toBe('10.83.77.7');
  });

  it.each(['orch', 'kubernetes.io'])(
    'have their rate limited as %s/ingress-bandwidth says [ann-bandwidth]',
    async (prefix) => {
      const name = `slow-${prefix.replace('.', '-')}`;
      const pod = await start(podOf(name, { annotations: { [`${prefix}/ingress-bandwidth`]: '10M' } }));
      const node = cluster.nodes.find((each) => each.name === pod.spec.nodeName);
      const link = (await endpointOf(name)).spec.interfaceName;
      const [qdisc] = JSON.parse(await node!.machine.exec('tc', '-j', 'qdisc', 'show', 'dev', link));
      expect(qdisc).toMatchObject({ kind: 'tbf', options: { rate: 10_000_000 / 8 } });
    },
  );
});

describe('host-local with pod CIDRs', () => {
  it('takes ranges from the node in both families, beside a fixed one [hl-podcidr-lookup]', async () => {
    const ipam = {
      type: 'host-local',
      ranges: [[{ subnet: 'usePodCidr' }, { subnet: '10.200.0.0/24' }], [{ subnet: 'usePodCidrIPv6' }]],
    };
    await using cluster = await startCluster({ nodes: 1, conflist: (node) => conflistOf(node, { ipam }) });
    await giveAccess(cluster);
    await cluster.apply([podOf('local')]);
    const [pod] = await cluster.waitForPodsReady({ selector: 'app=local', count: 1 });
    const { items } = await cluster.get('nodes');
    const [v4, v6] = items[0].spec.podCIDRs.map((cidr: string) => cidr.replace(/(\.0\/24|:\/64)$/, ''));
    expect(pod.status.podIPs[0].ip.startsWith(v4)).toBe(true);
    expect(pod.status.podIPs[1].ip.startsWith(v6)).toBe(true);
    await cluster.kubectl('delete', 'pod', 'local');
  }, 240_000);
});
