import { describe, expect, it } from 'vitest';
import { NEW, OLD, type SoundCluster, soundCluster } from '../../../test/support/sound-cluster.ts';
import { clusterObjects } from '../../install/cluster/cluster-objects.ts';
import { imageNames } from '../../install/cluster/names.ts';
import { operatorObjects } from '../../install/cluster/operator-deployment.ts';
import { objectName } from '../../kube/objects/reference.ts';
import { containersIn, findNamed, recordIn, textIn, variableIn } from './objects-in.ts';
import { upgradeTarget } from './upgrade-target.ts';
import { settingsOf } from '../../install/cluster/settings-of.ts';

const kv = { type: 'kvv3', endpoints: 'https://10.0.0.1:2379', tls: 'secret' } as const;
const POOL = { ipPools: [{ cidr: '10.1.0.0/16' }] };

describe('the target of an upgrade', () => {
  it.each<[string, SoundCluster]>([
    ['with defaults', {}],
    ['with BGP', { spec: { calicoNetwork: { ipPools: [{ cidr: '10.1.0.0/16', encapsulation: 'None' }] } } }],
    ['with both families', { spec: { calicoNetwork: { ipPools: [{ cidr: '10.1.0.0/16' }, { cidr: 'fd00::/48' }] } } }],
    ['with IPv6 alone', { spec: { calicoNetwork: { ipPools: [{ cidr: 'fd00::/48' }] } } }],
    ['with the annotation floatingIPs', { spec: { calicoNetwork: { ...POOL, floatingIPs: 'Enabled' } } }],
    ['with the annotation ipAddrsNoIpam', { spec: { calicoNetwork: { ...POOL, ipAddrsNoIpam: 'Enabled' } } }],
    ['with host-local', { spec: { cni: { ipam: { type: 'HostLocal' } } } }],
    ['with a second plugin', { circumstances: { variant: 'second-plugin' } }],
    ['with policy only', { circumstances: { variant: 'policy-only', interfacePrefix: 'eni' } }],
    ['with the fan-out', { spec: { typha: { mode: 'Enabled', replicas: 4, labels: { team: 'net' } } } }],
    ['on etcd', { circumstances: { datastore: kv } }],
    ['on etcd with a second plugin', { circumstances: { datastore: kv, variant: 'second-plugin' } }],
    [
      'on etcd without TLS',
      { circumstances: { datastore: { type: 'kvv3', endpoints: 'http://10.0.0.1:2379', tls: 'none' } } },
    ],
    [
      'with every setting',
      {
        spec: {
          registry: 'registry.example:5000/netplug',
          imagePullSecrets: ['pull'],
          calicoNetwork: {
            ipPools: [{ cidr: '10.1.0.0/16' }],
            mtu: 1400,
            hostPorts: 'Disabled',
            bandwidth: 'Disabled',
            bandwidthBurstMs: 50,
            policy: 'Disabled',
            containerIPForwarding: 'Enabled',
            nodeAddressDetectionV4: 'interface=eth1',
          },
          logging: { cni: { logSeverity: 'Debug', logFileMaxSizeMb: 7, logFileMaxAgeDays: 3, logFileMaxCount: 2 } },
          node: {
            env: { NETPLUG_LOG_LEVEL: 'debug' },
            tolerations: [{ key: 'only', operator: 'Exists' }],
            nodeSelector: { zone: 'a' },
            resources: { limits: { memory: '1Gi' } },
          },
          controllers: { resources: { limits: { cpu: '1' } } },
          controlPlaneReplicas: 3,
        },
      },
    ],
  ])('has the settings of the cluster %s, without its pools [up-methods]', (_, cluster) => {
    const spec = cluster.spec ?? {};
    const own = {
      variant: 'policy-and-networking',
      datastore: { type: 'orch' },
      defaultPools: [{ cidr: '192.168.0.0/16' }],
      nodes: 3,
      ...cluster.circumstances,
    } as const;
    const expected = clusterObjects(settingsOf(spec, { ...own, release: NEW })).map(({ stage, objects }) => ({
      stage,
      objects: objects.filter(({ kind }) => kind !== 'IPPool'),
    }));
    expect(upgradeTarget(soundCluster({ ...cluster, release: OLD }), { release: NEW }).stages).toEqual(expected);
  });

  it('leads to the fan-out by the manifest that has it, with the edits of it, and back by the other', () => {
    const objectsIn = (cluster: SoundCluster) => soundCluster({ ...cluster, release: NEW }).objects;
    const [off, on] = [{}, { spec: { typha: { mode: 'Enabled', replicas: 5 } } }] as const;
    const to = upgradeTarget(soundCluster(off), { release: NEW, edited: objectsIn(on) });
    const servers = (stages: typeof to.stages) => stages.find(({ stage }) => stage === 'typha')?.objects ?? [];
    expect(servers(to.stages).map(objectName)).toEqual([
      'PodDisruptionBudget netplug-system/netplug-typha',
      'Deployment netplug-system/netplug-typha',
    ]);
    expect(recordIn(servers(to.stages)[1] ?? {}, 'spec')['replicas']).toBe(5);
    expect(to.manifest).toBe('netplug-typha.yaml');
    const back = upgradeTarget(soundCluster(on), { release: NEW, edited: objectsIn(off) });
    expect(servers(back.stages)).toEqual([]);
    expect(back.manifest).toBe('netplug.yaml');
    expect(servers(upgradeTarget(soundCluster(on), { release: NEW }).stages)).toHaveLength(2);
  });

  it('keeps what a user has set of the operator: pull secrets, resources and proxies', () => {
    const settings = {
      release: OLD,
      images: { ...imageNames(OLD, 'registry.example'), pullSecrets: ['pull'] },
      replicas: 2,
      override: { resources: { limits: { memory: '1Gi' } }, env: { HTTPS_PROXY: 'http://10.0.0.9:3128' } },
    } as const;
    const snapshot = soundCluster();
    const { operator } = upgradeTarget(
      { ...snapshot, objects: [...snapshot.objects, ...operatorObjects(settings)] },
      { release: NEW },
    );
    const images = { ...imageNames(NEW, 'registry.example'), pullSecrets: ['pull'] };
    expect(operator).toEqual(operatorObjects({ ...settings, release: NEW, images }));
  });

  it('replaces agents by itself, also with an edited manifest that leaves it to a user', () => {
    const snapshot = soundCluster();
    const agent = findNamed(snapshot.objects, 'DaemonSet', 'netplug-node') ?? {};
    const edited = { ...agent, spec: { ...recordIn(agent, 'spec'), updateStrategy: { type: 'OnDelete' } } };
    const { stages } = upgradeTarget(snapshot, { release: NEW, edited: [edited] });
    const objects = stages.flatMap((stage) => stage.objects);
    const found = findNamed(objects, 'DaemonSet', 'netplug-node') ?? {};
    expect(recordIn(found, 'spec')['updateStrategy']).toMatchObject({ type: 'RollingUpdate' });
  });

  it('keeps a variable that a user added to the DaemonSet by hand', () => {
    const snapshot = soundCluster();
    const objects = snapshot.objects.map((object) =>
      objectName(object).startsWith('DaemonSet ')
        ? (JSON.parse(
            JSON.stringify(object).replace(
              '{"name":"NETPLUG_NAMESPACE"',
              '{"name":"NETPLUG_LOG_LEVEL","value":"debug"},{"name":"NETPLUG_NAMESPACE"',
            ),
          ) as typeof object)
        : object,
    );
    const { stages } = upgradeTarget({ ...snapshot, objects }, { release: NEW });
    const agent = findNamed(
      stages.flatMap((stage) => stage.objects),
      'DaemonSet',
      'netplug-node',
    );
    const [container = {}] = containersIn(agent ?? {});
    expect(variableIn(container, 'NETPLUG_LOG_LEVEL')).toBe('debug');
    expect(textIn(container, 'image')).toBe(`netplug.io/netplug-node:${NEW}`);
  });
});
