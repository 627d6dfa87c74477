import { describe, expect, it } from 'vitest';
import { settingsOf } from '../../install/cluster/settings-of.ts';
import { poolOf } from '../../install/cluster/pool-of.ts';
import type { InstallationSpec } from '../../model/installation.ts';
import { overlapStatus } from '../../model/ip-pool-status.ts';
import type { IpPool } from '../../model/ip-pool.ts';
import { OWNER_LABEL } from '../../install/cluster/owned-pool.ts';
import { type AcceptedSpec, acceptSpec, type ObservedCluster } from './accept-spec.ts';

const CLUSTER: ObservedCluster = {
  release: 'v3.27.0',
  digests: new Map(),
  servesAdmission: true,
  nodes: ['1', '2'].map((last) => ({ name: `n${last}`, addresses: [`192.168.33.${last}`], podCidrs: [] })),
  serviceCidrs: ['10.96.0.0/16'],
  pools: [],
  unreadablePools: [],
};
const OWNED = { [OWNER_LABEL]: 'netplug-operator' };

function accepted(spec: InstallationSpec, cluster: Partial<ObservedCluster> = {}): AcceptedSpec {
  const result = acceptSpec(spec, { ...CLUSTER, ...cluster });
  if ('problems' in result) throw new Error(JSON.stringify(result.problems));
  return result;
}

function problems(spec: InstallationSpec, cluster: Partial<ObservedCluster> = {}): readonly string[] {
  const result = acceptSpec(spec, { ...CLUSTER, ...cluster });
  return 'problems' in result ? result.problems.map(({ path, message }) => `${path}: ${message}`) : [];
}

const existing = (cidr: string, name: string, more: Partial<IpPool['metadata']> = {}): IpPool => {
  const pool = poolOf({ cidr }, name);
  return { ...pool, metadata: { ...pool.metadata, ...more } };
};

describe('an accepted installation', () => {
  it.each<[string, InstallationSpec]>([
    ['nothing', {}],
    ['host-local', { cni: { ipam: { type: 'HostLocal' } }, calicoNetwork: { ipPools: [{ cidr: 'fd00::/48' }] } }],
    [
      'address annotations',
      {
        calicoNetwork: { ipPools: [{ cidr: '10.1.0.0/16' }], floatingIPs: 'Enabled', ipAddrsNoIpam: 'Enabled' },
      },
    ],
    [
      'everything',
      {
        registry: 'registry.example:5000/netplug/',
        imagePullSecrets: ['a'],
        calicoNetwork: {
          ipPools: [{ cidr: '10.1.0.0/16', encapsulation: 'None', natOutgoing: 'Disabled' }, { cidr: 'fd00::/48' }],
          mtu: 1400,
          hostPorts: 'Disabled',
          bandwidth: 'Disabled',
          bandwidthBurstMs: 50,
          policy: 'Disabled',
          containerIPForwarding: 'Enabled',
          nodeAddressDetectionV4: 'interface=eth.*',
        },
        logging: { cni: { logSeverity: 'Debug', logFileMaxCount: 3 } },
        node: { env: { A: 'b' } },
        controllers: { labels: { a: 'b' } },
        controlPlaneReplicas: 1,
        deletionPolicy: 'Remove',
      },
    ],
  ])('has a computed spec from which the same settings follow: %s', (_, spec) => {
    const { settings } = accepted(spec);
    const again = settingsOf(settings.spec, {
      release: 'v3.27.0',
      variant: 'policy-and-networking',
      datastore: { type: 'orch' },
      defaultPools: [],
      nodes: 2,
    });
    const withoutLabels = settings.pools.map((pool) => ({ ...pool, metadata: { name: pool.metadata.name } }));
    expect(again).toEqual({ ...settings, pools: withoutLabels });
  });

  it('has one pool without a list of pools, which overlaps neither nodes nor services nor pods', () => {
    const nodes = [{ name: 'n', addresses: ['192.168.0.9'], podCidrs: ['10.244.0.0/24'] }];
    expect(accepted({}, { nodes }).settings.pools.map(({ spec }) => spec.cidr)).toEqual(['172.30.0.0/16']);
    expect(accepted({}).settings.pools[0]?.metadata.labels).toEqual(OWNED);
    expect(accepted({ calicoNetwork: { ipPools: [] } }).settings.pools).toEqual([]);
    expect(problems({}, { serviceCidrs: ['0.0.0.0/0'] })).toEqual([
      'spec.calicoNetwork.ipPools: missing, and every common range overlaps addresses of nodes, pods or services',
    ]);
  });

  it('writes of pools that exist only that of a manifest when the spec lists none, and uses all', () => {
    const ofManifest = existing('10.1.0.0/16', 'default-ipv4');
    const own = existing('10.1.0.0/16', 'default-ipv4', { labels: OWNED });
    const ofUser = existing('10.2.0.0/16', 'mine');
    const written = (pool: IpPool): readonly string[] =>
      accepted({}, { pools: [pool] }).settings.pools.map(({ metadata }) => metadata.name);
    expect([ofManifest, own, ofUser].map(written)).toEqual([['default-ipv4'], [], []]);
    for (const { metadata, spec } of [ofManifest, own, ofUser])
      expect(accepted({}, { pools: [existing(spec.cidr, metadata.name, metadata)] }).settings.spec).toMatchObject({
        calicoNetwork: { ipPools: [{ name: metadata.name }] },
      });
  });

  it.each<[string, Partial<IpPool['spec']>]>([
    ['disabled', { disabled: true }],
    ['left to tunnels', { allowedUses: ['Tunnel'] }],
  ])('neither changes nor replaces the only pool once it is %s: pods may use it', (_, change) => {
    const own = existing('192.168.0.0/16', 'default-ipv4', { labels: OWNED });
    const { settings, warnings } = accepted({}, { pools: [{ ...own, spec: { ...own.spec, ...change } }] });
    expect({ pools: settings.pools, warnings }).toEqual({ pools: [], warnings: [] });
  });

  it('warns of a pool that the controllers have marked, until it is disabled', () => {
    const pool = existing('10.1.0.0/16', 'mine');
    const status = overlapStatus('10.1.7.0/24, a range of Services', '2026-01-01T00:00:00Z');
    expect(accepted({}, { pools: [{ ...pool, status }] }).warnings).toEqual([
      'IPPool "mine" assigns no addresses: it overlaps 10.1.7.0/24, a range of Services',
    ]);
    const disabled = { ...pool, spec: { ...pool.spec, disabled: true }, status };
    expect(accepted({}, { pools: [disabled] }).warnings).toEqual([]);
  });

  it('keeps BIRD and address families of pools that are disabled', () => {
    const [v4, v6] = [existing('10.1.0.0/16', 'a'), existing('fd00::/48', 'b')];
    const routed = poolOf({ cidr: '10.1.0.0/16', encapsulation: 'None' }, 'a');
    const disabled = { ...routed, spec: { ...routed.spec, disabled: true } };
    expect(accepted({}, { pools: [disabled, v6] }).settings).toMatchObject({
      spec: { calicoNetwork: { bgp: 'Enabled' } },
      families: [4, 6],
    });
    expect(accepted({}, { pools: [v4] }).settings).toMatchObject({
      spec: { calicoNetwork: { bgp: 'Disabled' } },
      families: [4],
    });
  });

  it('creates no pool beside one that it cannot read, and does not list another range under its name', () => {
    const unreadablePools = [{ name: 'default-ipv4', cidr: '10.1.0.0/16', problem: 'no selector' }];
    expect(accepted({}, { unreadablePools }).settings.pools).toEqual([]);
    expect(
      accepted({ calicoNetwork: { ipPools: [{ cidr: '10.1.0.0/16' }] } }, { unreadablePools }).settings.pools,
    ).toHaveLength(1);
    expect(problems({ calicoNetwork: { ipPools: [{ cidr: '10.2.0.0/16' }] } }, { unreadablePools })).toEqual([
      'spec.calicoNetwork.ipPools[0]: would replace pool "default-ipv4", which cannot be used (no selector), and its range 10.1.0.0/16',
    ]);
  });

  it('keeps the block size of a pool that exists, unless the spec names another, which is refused', () => {
    const pool = poolOf({ cidr: '10.1.0.0/16', blockSize: 28 }, 'default-ipv4');
    const listed = { calicoNetwork: { ipPools: [{ cidr: '10.1.0.0/16' }] } };
    expect(accepted(listed, { pools: [pool] }).settings.pools[0]?.spec.blockSize).toBe(28);
    const other = { calicoNetwork: { ipPools: [{ cidr: '10.1.0.0/16', blockSize: 26 }] } };
    expect(problems(other, { pools: [{ ...pool, metadata: { name: 'default-ipv4', labels: OWNED } }] })).toEqual([
      'spec.calicoNetwork.ipPools[0].blockSize: cannot be changed from 28 to 26',
    ]);
  });

  it('does not refuse an existing pool because a node joined with an address of it', () => {
    const pools = [existing('192.168.0.0/16', 'default-ipv4', { labels: OWNED })];
    expect(problems({ calicoNetwork: { ipPools: [{ cidr: '192.168.0.0/16' }] } }, { pools })).toEqual([]);
    expect(problems({ calicoNetwork: { ipPools: [{ cidr: '192.168.0.0/16' }] } })).toEqual([
      'spec.calicoNetwork.ipPools[0].cidr: 192.168.0.0/16 overlaps 192.168.33.1/32, the address of node "n1"',
    ]);
  });

  it('refuses ranges that no pool can have', () => {
    expect(problems({ calicoNetwork: { ipPools: [{ cidr: '169.254.0.0/16' }] } })).toEqual([
      'spec.calicoNetwork.ipPools[0].cidr: 169.254.0.0/16 overlaps the link-local addresses 169.254.0.0/16',
    ]);
  });
});
