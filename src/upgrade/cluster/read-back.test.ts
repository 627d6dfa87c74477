import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clusterObjects } from '../../install/cluster/cluster-objects.ts';
import { FIELD_ROWS } from '../../install/cluster/fields.ts';
import { type Circumstances, settingsOf } from '../../install/cluster/settings-of.ts';
import { type ClusterSettings, VARIANTS } from '../../install/cluster/settings.ts';
import { type FieldPath, type FieldValue, objectOf, valueAt } from '../../install/cluster/spec-path.ts';
import { decodeResource } from '../../model/decode-resource.ts';
import { INSTALLATION_NAME, type ComponentOverride, type InstallationSpec } from '../../model/installation.ts';
import { API_VERSION } from '../../model/resource.ts';
import { installedSettings } from './installed-spec.ts';

const SWITCH = fc.constantFrom('Enabled' as const, 'Disabled' as const);
const word = (first: string): fc.Arbitrary<string> => fc.stringMatching(new RegExp(`^${first}[a-z]{1,6}$`));
const texts = (key: fc.Arbitrary<string>) => fc.dictionary(key, word('v'), { minKeys: 1, maxKeys: 3 });
const OVERRIDES = {
  resources: fc.record({ limits: texts(word('cpu')) }),
  nodeSelector: texts(word('zone')),
  tolerations: fc.array(fc.record({ key: word('taint'), operator: fc.constant('Exists') }), { maxLength: 2 }),
  annotations: texts(word('note')),
  labels: texts(word('team')),
  env: texts(word('OWN_')),
};
const OVERRIDE: fc.Arbitrary<ComponentOverride> = fc.record(OVERRIDES, { requiredKeys: [] });
const POOL = fc.record(
  {
    cidr: fc.constantFrom('10.1.0.0/16', '10.2.0.0/16', 'fd00:1::/48', 'fd00:2::/48'),
    name: word('pool'),
    encapsulation: fc.constantFrom('VXLAN', 'VXLANCrossSubnet', 'IPIP', 'IPIPCrossSubnet', 'None'),
    natOutgoing: SWITCH,
    nodeSelector: fc.constant("rack == '1'"),
    disableBGPExport: fc.boolean(),
  },
  { requiredKeys: ['cidr'] },
);
const VALUES: { readonly [P in FieldPath]: fc.Arbitrary<FieldValue<P>> } = {
  'cni.type': fc.constant('netplug'),
  'cni.ipam.type': fc.constantFrom('netplug-ipam', 'HostLocal'),
  'cni.chainedPlugins': fc.array(fc.record({ type: word('mesh-'), sysctl: texts(word('key')) }), { maxLength: 2 }),
  'cni.binDir': fc.constantFrom('/opt/cni/bin', '/usr/lib/cni'),
  'cni.confDir': fc.constantFrom('/etc/cni/net.d', '/var/lib/rancher/k3s/agent/etc/cni/net.d'),
  'calicoNetwork.ipPools': fc.uniqueArray(POOL, { selector: ({ cidr }) => cidr, maxLength: 3 }),
  'calicoNetwork.bgp': SWITCH,
  'calicoNetwork.mtu': fc.integer({ min: 1280, max: 65_535 }),
  'calicoNetwork.hostPorts': SWITCH,
  'calicoNetwork.bandwidth': SWITCH,
  'calicoNetwork.bandwidthBurstMs': fc.integer({ min: 1, max: 1000 }),
  'calicoNetwork.policy': SWITCH,
  'calicoNetwork.containerIPForwarding': SWITCH,
  'calicoNetwork.ipAddrsNoIpam': SWITCH,
  'calicoNetwork.floatingIPs': SWITCH,
  'calicoNetwork.nodeAddressDetectionV4': fc.constantFrom('first-found', 'interface=eth.*', 'none'),
  'calicoNetwork.nodeAddressDetectionV6': fc.constantFrom('first-found', 'cidr=fd00::/8', 'none'),
  'logging.cni.logSeverity': fc.constantFrom('Error', 'Warning', 'Info', 'Debug'),
  'logging.cni.logFileMaxSizeMb': fc.integer({ min: 1, max: 100_000 }),
  'logging.cni.logFileMaxAgeDays': fc.integer({ min: 1, max: 10_000 }),
  'logging.cni.logFileMaxCount': fc.integer({ min: 1, max: 10_000 }),
  registry: fc.constantFrom('netplug.io', 'r.example:5000/a/b', 'r.example/'),
  imagePullSecrets: fc.uniqueArray(word('secret'), { maxLength: 2 }),
  node: OVERRIDE,
  controllers: OVERRIDE,
  typha: fc.record({ mode: SWITCH, replicas: fc.integer({ min: 1, max: 9 }), ...OVERRIDES }, { requiredKeys: [] }),
  // Fewer follow the number of nodes when they are read.
  controlPlaneReplicas: fc.integer({ min: 3, max: 10 }),
  admissionPolicies: SWITCH,
  deletionPolicy: fc.constantFrom('Orphan', 'Remove'),
};

/** Valid specs, of which each field may be missing. */
const SPEC = fc
  .record(VALUES, { requiredKeys: [] })
  .map((values) => objectOf(Object.entries(values)) as InstallationSpec)
  .filter((spec) => 'resource' in decodeResource(installation(spec)));
const CIRCUMSTANCES: fc.Arbitrary<Circumstances> = fc.record({
  release: fc.constant('v3.27.0'),
  variant: fc.constantFrom(...VARIANTS),
  datastore: fc.constantFrom(
    { type: 'orch' as const },
    { type: 'kvv3' as const, endpoints: 'https://a:2379,https://b:2379', tls: 'secret' as const },
    { type: 'kvv3' as const, endpoints: 'http://a:2379', tls: 'none' as const },
  ),
  defaultPools: fc.constantFrom([], [{ cidr: '192.168.0.0/16' }]),
  nodes: fc.nat(4),
});

function installation(spec: InstallationSpec): object {
  return { apiVersion: API_VERSION, kind: 'Installation', metadata: { name: INSTALLATION_NAME }, spec };
}

/** Returns the objects as a cluster has them: without pools, which are the user's, and without what no setting changes. */
function objectsOf(settings: ClusterSettings) {
  const kinds = ['ConfigMap', 'DaemonSet', 'Deployment'];
  const objects = clusterObjects(settings).flatMap((stage) => stage.objects);
  const own = objects.filter(({ kind }) => kinds.includes(String(kind)));
  return JSON.parse(JSON.stringify(own)) as typeof own;
}

/** Returns the settings that are read from the objects. */
function readBack(objects: ReturnType<typeof objectsOf>, { nodes, release }: Circumstances): ClusterSettings {
  const snapshot = { objects, pods: [], nodes: Array.from({ length: nodes }), tool: release };
  const { spec, circumstances } = installedSettings(snapshot);
  return settingsOf(spec, { ...circumstances, release });
}

/** Returns the settings that objects show: neither pools nor what has no effect in the variant. */
function shownIn({ families, spec, ...settings }: ClusterSettings): object {
  const { variant } = settings;
  const fields = FIELD_ROWS.filter(
    ([path, { read, override, idle = {} }]) =>
      path !== 'calicoNetwork.ipPools' && (read ?? override) !== undefined && !(variant in idle),
  ).map(([path]) => [path, valueAt(spec, path)]);
  return { ...settings, pools: [], families: variant === 'policy-only' ? [] : families, fields };
}

describe('the settings that are read from the objects of an installation', () => {
  it('are those that the objects were made from, for every valid Installation', () => {
    fc.assert(
      fc.property(SPEC, CIRCUMSTANCES, (spec, circumstances) => {
        const made = settingsOf(spec, circumstances);
        const objects = objectsOf(made);
        const read = readBack(objects, circumstances);
        expect(shownIn(read)).toEqual(shownIn(made));
        expect(objectsOf(read)).toEqual(objects);
      }),
    );
  });

  it('have a complete spec that is valid, and from which the same settings follow in any circumstances', () => {
    fc.assert(
      fc.property(SPEC, CIRCUMSTANCES, (spec, given) => {
        const circumstances = { ...given, variant: 'policy-and-networking' } as const;
        const made = settingsOf(spec, circumstances);
        expect(decodeResource(installation(made.spec))).toHaveProperty('resource');
        expect(settingsOf(made.spec, { ...circumstances, nodes: 1, defaultPools: [] })).toEqual(made);
      }),
    );
  });
});
