import { isDeepStrictEqual } from 'node:util';
import { tryParseJson } from '../../base/try-parse-json.ts';
import type { Manifest } from '../../model/manifest.ts';
import { clusterObjects } from '../../install/cluster/cluster-objects.ts';
import { AGENT_SET, BIRD_SET, CONFIG_MAP, DEFAULT_REGISTRY } from '../../install/cluster/names.ts';
import { type Circumstances, REPLICAS, settingsOf } from '../../install/cluster/settings-of.ts';
import type { ClusterDatastore } from '../../install/cluster/settings.ts';
import { CONTROLLERS } from '../../model/automatic-host-endpoint.ts';
import type { ComponentOverride, InstallationSpec } from '../../model/installation.ts';
import { isRecord } from '../../model/read-schema.ts';
import { oldestRelease, variantOf } from './detect-installation.ts';
import {
  containersIn,
  findNamed,
  listIn,
  metadataIn,
  podSpecIn,
  recordIn,
  templateIn,
  textIn,
  variableIn,
} from './objects-in.ts';
import type { ClusterSnapshot } from './snapshot.ts';

/** The moment of a "kubectl rollout restart", which is no setting. */
const RESTARTED_AT = 'kubectl.kubernetes.io/restartedAt';

type Fields = Readonly<Record<string, unknown>>;

/** What of a cluster shows how netplug was installed. */
export type InstalledObjects = Pick<ClusterSnapshot, 'objects' | 'pods' | 'tool'> & {
  readonly nodes: readonly unknown[];
};

/** What an installation was made of, as far as its objects show. */
export interface InstalledSettings {
  readonly spec: InstallationSpec;
  readonly circumstances: Omit<Circumstances, 'release'>;
}

/**
 * Returns the settings from which the objects of the cluster can be rendered again, with the edits that users make most: of the
 * conflist, of the registry, and what an override of a workload can say. Pools are left out: they are the user's. Pure.
 */
export function installedSettings(snapshot: InstalledObjects): InstalledSettings {
  const from = oldestRelease(snapshot) ?? snapshot.tool;
  const agent = findNamed(snapshot.objects, 'DaemonSet', AGENT_SET) ?? {};
  const controllers = findNamed(snapshot.objects, 'Deployment', CONTROLLERS) ?? {};
  const [container = {}] = containersIn(agent);
  const prefix = variableIn(container, 'NETPLUG_INTERFACE_PREFIX');
  const circumstances = {
    variant: variantOf(snapshot.objects),
    datastore: datastoreIn(container),
    defaultPools: [],
    nodes: snapshot.nodes.length,
    ...(prefix === undefined ? {} : { interfacePrefix: prefix }),
  };
  const plain = plainSpec(snapshot, agent, controllers);
  const rendered = clusterObjects(settingsOf(plain, { ...circumstances, release: from })).flatMap(
    (stage) => stage.objects,
  );
  const override = (name: string, live: Manifest): ComponentOverride | undefined => {
    const own = rendered.find((object) => metadataIn(object).name === name && isWorkload(object));
    return own === undefined || live['kind'] === undefined ? undefined : overrideOf(live, own);
  };
  const [node, rest] = [override(AGENT_SET, agent), override(CONTROLLERS, controllers)];
  const spec = {
    ...plain,
    ...(node === undefined ? {} : { node }),
    ...(rest === undefined ? {} : { controllers: rest }),
  };
  return { spec, circumstances };
}

/** Returns the registry of an image's name; undefined for that of the project. */
export function registryIn(image: string): string | undefined {
  const registry = image.replace(/\/[^/]*$/, '');
  return registry === image || registry === DEFAULT_REGISTRY ? undefined : registry;
}

/** Returns the names of the Secrets with which a workload's images are pulled. */
export function pullSecretsIn(workload: Manifest): readonly string[] {
  return listIn(podSpecIn(workload), 'imagePullSecrets').map((secret) => textIn(secret, 'name'));
}

function isWorkload({ kind }: Manifest): boolean {
  return kind === 'DaemonSet' || kind === 'Deployment';
}

function plainSpec(snapshot: InstalledObjects, agent: Manifest, controllers: Manifest): InstallationSpec {
  const [container = {}] = containersIn(agent);
  const registry = registryIn(textIn(container, 'image'));
  const secrets = pullSecretsIn(agent);
  const replicas = recordIn(controllers, 'spec')['replicas'];
  const isBgp = findNamed(snapshot.objects, 'DaemonSet', BIRD_SET) !== undefined;
  const [v4, v6] = [variableIn(container, 'NETPLUG_IP'), variableIn(container, 'NETPLUG_IP6')];
  return {
    ...conflistSpec(snapshot, { isBgp, v4, v6 }),
    ...(registry === undefined ? {} : { registry }),
    ...(secrets.length === 0 ? {} : { imagePullSecrets: secrets }),
    // Fewer follow from the number of nodes, which may have grown.
    ...(typeof replicas === 'number' && replicas > REPLICAS ? { controlPlaneReplicas: replicas } : {}),
  };
}

/** The conflist holds what concerns the plugin. Its absence, with another plugin, leaves everything at its default. */
function conflistSpec(
  { objects }: InstalledObjects,
  detection: { readonly isBgp: boolean; readonly v4: string | undefined; readonly v6: string | undefined },
): InstallationSpec {
  const text = textIn(recordIn(findNamed(objects, 'ConfigMap', CONFIG_MAP) ?? {}, 'data'), 'conflist');
  const conflist = tryParseJson(text);
  const plugins = isRecord(conflist) ? listIn(conflist, 'plugins') : [];
  const [main = {}] = plugins;
  const has = (type: string): 'Enabled' | 'Disabled' =>
    plugins.some((plugin) => plugin['type'] === type) ? 'Enabled' : 'Disabled';
  const { v4, v6, isBgp } = detection;
  const addresses = {
    ...(v4 === undefined ? {} : { nodeAddressDetectionV4: v4 }),
    ...(v6 === undefined ? {} : { nodeAddressDetectionV6: v6 }),
    bgp: isBgp ? ('Enabled' as const) : ('Disabled' as const),
  };
  if (!isRecord(conflist)) return { calicoNetwork: addresses };
  const ipam = recordIn(main, 'ipam');
  const isHostLocal = ipam['type'] === 'host-local';
  const has6 = isHostLocal ? JSON.stringify(ipam).includes('usePodCidrIPv6') : ipam['assign_ipv6'] === 'true';
  const has4 = isHostLocal ? JSON.stringify(ipam).includes('"usePodCidr"') : ipam['assign_ipv4'] !== 'false';
  const mtu = main['mtu'];
  const switched = (section: string, key: string): 'Enabled' | 'Disabled' =>
    recordIn(main, section)[key] === true ? 'Enabled' : 'Disabled';
  return {
    cni: { ipam: { type: isHostLocal ? 'HostLocal' : 'netplug-ipam' } },
    calicoNetwork: {
      ...addresses,
      // Only their families matter.
      ipPools: [...(has4 ? [{ cidr: '192.168.0.0/16' }] : []), ...(has6 ? [{ cidr: 'fd00::/48' }] : [])],
      ...(typeof mtu === 'number' ? { mtu } : {}),
      hostPorts: has('portmap'),
      bandwidth: has('bandwidth'),
      policy: recordIn(main, 'policy')['type'] === 'orch' ? 'Enabled' : 'Disabled',
      containerIPForwarding: switched('container_settings', 'allow_ip_forwarding'),
      floatingIPs: switched('feature_control', 'floating_ips'),
      ipAddrsNoIpam: switched('feature_control', 'ip_addrs_no_ipam'),
    },
    logging: { cni: logSpec(main) },
  };
}

const SEVERITIES = { ERROR: 'Error', WARNING: 'Warning', INFO: 'Info', DEBUG: 'Debug' } as const;

function logSpec(plugin: Fields): NonNullable<NonNullable<InstallationSpec['logging']>['cni']> {
  const number = (key: string): number | undefined => {
    const value = plugin[key];
    return typeof value === 'number' ? value : undefined;
  };
  const severity = Object.entries(SEVERITIES).find(([name]) => name === plugin['log_level'])?.[1];
  const [size, age, count] = ['log_file_max_size', 'log_file_max_age', 'log_file_max_count'].map(number);
  return {
    ...(severity === undefined ? {} : { logSeverity: severity }),
    ...(size === undefined ? {} : { logFileMaxSizeMb: size }),
    ...(age === undefined ? {} : { logFileMaxAgeDays: age }),
    ...(count === undefined ? {} : { logFileMaxCount: count }),
  };
}

function datastoreIn(container: Fields): ClusterDatastore {
  if (variableIn(container, 'DATASTORE_TYPE') !== 'kvv3') return { type: 'orch' };
  const tls = variableIn(container, 'KV_CERT_FILE') === undefined ? 'none' : 'secret';
  return { type: 'kvv3', endpoints: variableIn(container, 'KV_ENDPOINTS') ?? '', tls };
}

/** Returns what the user changed in a workload, as far as an Installation can express it. Pure. */
export function overrideOf(live: Manifest, own: Manifest): ComponentOverride | undefined {
  const [[mine = {}], [theirs = {}]] = [containersIn(own), containersIn(live)];
  const env: Record<string, string> = {};
  for (const variable of listIn(theirs, 'env')) {
    const [name, value] = [textIn(variable, 'name'), variable['value']];
    if (typeof value === 'string' && variableIn(mine, name) !== value) env[name] = value;
  }
  const resources = theirs['resources'];
  // The API leaves out an empty list.
  const { tolerations = [] } = podSpecIn(live);
  const selector = recordIn(podSpecIn(live), 'nodeSelector');
  const further = Object.entries(selector).filter(([key]) => key !== 'kubernetes.io/os');
  const [labels, annotations] = [furtherOf('labels', live, own), furtherOf('annotations', live, own)];
  const override = {
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(isRecord(resources) && Object.keys(resources).length > 0 ? { resources } : {}),
    ...(isDeepStrictEqual(tolerations, podSpecIn(own)['tolerations']) ? {} : { tolerations }),
    ...(further.length === 0 ? {} : { nodeSelector: Object.fromEntries(further) }),
    ...(Object.keys(labels).length === 0 ? {} : { labels }),
    ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
  };
  // They come from the API, which has checked them against the same schema.
  return Object.keys(override).length === 0 ? undefined : (override as ComponentOverride);
}

/** Returns what the pods of a workload have besides what netplug gives them. */
function furtherOf(part: 'labels' | 'annotations', live: Manifest, own: Manifest): Readonly<Record<string, string>> {
  const [theirs, mine] = [metadataIn(templateIn(live))[part], metadataIn(templateIn(own))[part]];
  const further = Object.entries(theirs).filter(([key]) => !(key in mine) && key !== RESTARTED_AT);
  return Object.fromEntries(further);
}
