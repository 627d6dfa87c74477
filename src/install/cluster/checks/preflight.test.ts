import { describe, expect, it } from 'vitest';
import { BROKEN_MESHES } from '../../../../test/support/mesh-facts.ts';
import type { NodeState } from '../../../kube/status/node-state.ts';
import { type InstallFacts, preflight } from './preflight.ts';

const NODE: NodeState = {
  name: 'node-a',
  os: 'linux',
  isReady: true,
  isSchedulable: true,
  kubelet: 'v1.37.2',
  architecture: 'arm64',
  kernel: '5.10.0-30-arm64',
  runtime: 'containerd://2.4.2',
  addresses: ['172.20.0.11'],
  podCidrs: ['10.244.0.0/24'],
  taints: [],
  labels: {},
};
const DEFINITION = { name: 'ippools.netplug.io', release: undefined, further: [], lacking: [] };
const SOUND: InstallFacts = {
  kubernetes: 'v1.34.0',
  nodes: [NODE, { ...NODE, name: 'other', os: 'windows', architecture: 'ppc64', kernel: '10.0.17763' }],
  webhooks: [{ name: 'policy/pods', failurePolicy: 'Ignore', isBehindPodNetwork: true, matches: ['pods'] }],
  missingRights: [],
  unread: [],
  serviceCidrs: ['10.96.0.0/16'],
  pools: [],
  foreignPlugins: [],
  portHolders: [],
  definitions: [DEFINITION],
  release: 'v3.26.0',
  installedBy: undefined,
  certificateFaults: [],
  servesAdmission: true,
  lostRights: [],
  refusedPods: [],
  agentsOutsidePods: [],
  wanted: {
    method: 'manifest',
    variant: 'policy-and-networking',
    datastore: { type: 'orch' },
    runs: undefined,
    usesPodCidrs: false,
    admissionPolicies: 'Enabled',
    pools: [{ name: 'default', cidr: '192.168.0.0/16', field: '--pool 192.168.0.0/16' }],
    release: 'v3.27.0',
  },
};
const node = (change: Partial<NodeState>): Partial<InstallFacts> => ({ nodes: [{ ...NODE, ...change }] });
const wanted = (change: Partial<InstallFacts['wanted']>): Partial<InstallFacts> => ({
  wanted: { ...SOUND.wanted, ...change },
});
const pool = (cidr: string, name = 'p'): Partial<InstallFacts> =>
  wanted({ pools: [{ name, cidr, field: `--pool ${cidr}` }] });
const runs = { variant: 'policy-only', datastore: { type: 'orch' } } as const;

describe('the preflight of an installation', () => {
  it('finds nothing in a sound cluster, whatever nodes without Linux are like', () => {
    expect(preflight(SOUND)).toEqual([]);
  });

  it.each<[string, string, Partial<InstallFacts>]>([
    ['server/too-old', 'v1.33.9', { kubernetes: 'v1.33.9' }],
    ['server/rights', 'create pods', { missingRights: ['create pods'] }],
    [
      'server/webhooks',
      'policy/pods',
      { webhooks: [{ name: 'policy/pods', failurePolicy: 'Fail', isBehindPodNetwork: true, matches: ['pods'] }] },
    ],
    ['nodes/kubelet-too-old', 'Node node-a (v1.33.0)', node({ kubelet: 'v1.33.0' })],
    ['nodes/runtime-too-old', 'Node node-a (containerd://1.7.29)', node({ runtime: 'containerd://1.7.29' })],
    ['nodes/kernel-too-old', 'Node node-a (5.9.16)', node({ kernel: '5.9.16' })],
    ['nodes/clock-skew', 'Node node-a (31 s ahead)', node({ clockAheadMs: 31_000 })],
    ['nodes/architecture', 'Node node-a (s390x)', node({ architecture: 's390x' })],
    ['release/newer', 'v3.28.0', { release: 'v3.28.0' }],
    ['definitions/newer', 'v3.28.0', { definitions: [{ ...DEFINITION, release: 'v3.28.0', further: ['a'] }] }],
    ['definitions/changed', 'spec.new', { definitions: [{ ...DEFINITION, further: ['spec.new'] }] }],
    ['definitions/older', 'spec.old', { definitions: [{ ...DEFINITION, lacking: ['spec.old'] }] }],
    ['installation/method', 'by chart', { installedBy: 'chart' }],
    ['installation/variant', 'policy-only', wanted({ runs })],
    [
      'installation/datastore',
      'in etcd',
      wanted({ runs: { ...SOUND.wanted, datastore: { type: 'kvv3', endpoints: 'http://a', tls: 'none' } } }),
    ],
    [
      'admission/refused-pods',
      'Deployment shop/web',
      { refusedPods: ['Deployment shop/web (cni.netplug/floatingIPs)'] },
    ],
    ['admission/agent-outside-pod', 'Node node-a', { agentsOutsidePods: ['node-a'] }],
    [
      'bindings/lose-rights',
      'ClusterRoleBinding na (User bob)',
      {
        lostRights: [
          { role: 'netplug-admin', rights: ['patch nodes/status'], bindings: ['ClusterRoleBinding na (User bob)'] },
        ],
      },
    ],
    ['admission/unserved', 'pods may set every annotation', { servesAdmission: false }],
    ['nodes/none', 'no node with Linux', { nodes: [] }],
    ['nodes/not-ready', 'KubeletNotReady: disk', node({ isReady: false, notReady: 'KubeletNotReady: disk' })],
    ['nodes/no-pod-cidr', 'Node node-a', { ...node({ podCidrs: [] }), ...wanted({ usesPodCidrs: true }) }],
    ['pools/overlap', '10.96.0.0/16, a range of Services', pool('10.96.4.0/24')],
    ['pools/overlap', '172.20.0.11/32, the address of node "node-a"', pool('172.16.0.0/12')],
    [
      'pools/overlap',
      'the network of node "node-a"',
      { ...node({ addresses: ['10.0.0.5/8'] }), ...pool('10.1.0.0/16') },
    ],
    [
      'pools/changed',
      'exists with 10.2.0.0/16',
      { ...pool('10.1.0.0/16', 'default-ipv4'), pools: [{ name: 'default-ipv4', cidr: '10.2.0.0/16' }] },
    ],
    ['pools/overlap', 'the pool "blue"', { ...pool('10.1.0.0/16'), pools: [{ name: 'blue', cidr: '10.1.2.0/24' }] }],
    ['cluster/ipvs', 'egress policies judge the address of the Service', { proxyMode: 'ipvs' }],
    ['cluster/other-plugin', 'DaemonSet kube-system/cilium', { foreignPlugins: ['kube-system/cilium'] }],
    ['nodes/port-taken', 'Pod a/b (9098)', { portHolders: [{ pod: 'a/b', port: 9098 }] }],
    ['datastore/certificates', '/a: has expired', { certificateFaults: ['/a: has expired'] }],
    ['mesh/filter-missing', 'Namespace shop', { meshState: BROKEN_MESHES['mesh/filter-missing'] }],
  ])('finds %s, which names %s, with a remedy', (id, names, change) => {
    const found = preflight({ ...SOUND, ...change });
    expect(found.map((finding) => finding.id)).toEqual([id]);
    expect(JSON.stringify(found)).toContain(JSON.stringify(names).slice(1, -1));
    expect(found[0]?.remedy).not.toBe('');
  });

  it('accepts nodes that only lack a network', () => {
    const notReady = 'KubeletNotReady: container runtime network not ready: NetworkReady=false';
    expect(preflight({ ...SOUND, ...node({ isReady: false, notReady }) })).toEqual([]);
  });

  it('does not name what the admission policies would refuse when the user does not want them', () => {
    const refused = { refusedPods: ['Pod shop/web (cni.netplug/floatingIPs)'], agentsOutsidePods: ['node-a'] };
    const unwanted = wanted({ admissionPolicies: 'Disabled' });
    expect(preflight({ ...SOUND, ...refused, servesAdmission: false, ...unwanted })).toEqual([]);
  });

  it('refuses what it could not find out', () => {
    // Pools and the release are read where the definitions say that they exist.
    const withoutDefinitions = preflight({ ...SOUND, unread: [{ fact: 'definitions', why: 'forbidden' }] });
    expect(withoutDefinitions.map(({ id }) => id)).toEqual(expect.arrayContaining(['pools/overlap', 'release/newer']));
    const found = preflight({ ...SOUND, unread: [{ fact: 'pods', why: 'forbidden' }] });
    expect(found).toMatchObject([
      { id: 'nodes/port-taken', severity: 'error', found: 'not known: pods could not be read (forbidden)' },
    ]);
  });
});
