import { isDeepStrictEqual } from 'node:util';
import { DIGESTS_VARIABLE } from '../../base/image-digests.ts';
import { tryParseJson } from '../../base/try-parse-json.ts';
import type { Manifest } from '../../model/manifest.ts';
import { clusterObjects } from '../../install/cluster/cluster-objects.ts';
import type { ShownObjects } from '../../install/cluster/field.ts';
import { FIELD_ROWS } from '../../install/cluster/fields.ts';
import { ADMISSION_KEY, AGENT_SET, BIRD_SET, CONFIG_MAP, registryIn } from '../../install/cluster/names.ts';
import { TYPHA } from '../../model/typha.ts';
import { type Circumstances, settingsOf } from '../../install/cluster/settings-of.ts';
import type { ClusterDatastore } from '../../install/cluster/settings.ts';
import { objectOf } from '../../install/cluster/spec-path.ts';
import { CONTROLLERS } from '../../model/automatic-host-endpoint.ts';
import type { ComponentOverride, InstallationSpec } from '../../model/installation.ts';
import { isRecord } from '../../model/read-schema.ts';
import { oldestRelease, variantOf } from './detect-installation.ts';
import {
  agentContainerIn,
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
import { usesFanOut } from './uses-fan-out.ts';

/** The moment of a "kubectl rollout restart", which is no setting. */
export const RESTARTED_AT = 'kubectl.kubernetes.io/restartedAt';

type Fields = Readonly<Record<string, unknown>>;

/** Parts of a cluster that show how netplug was installed. */
export type InstalledObjects = Pick<ClusterSnapshot, 'objects' | 'pods' | 'tool'> & {
  readonly nodes: readonly unknown[];
};

/** Settings that an installation was made of, as far as its objects show. */
export interface InstalledSettings {
  readonly spec: InstallationSpec;
  readonly circumstances: Omit<Circumstances, 'release'>;
}

/**
 * Returns the settings from which the objects of the cluster can be rendered again, with the edits that users make most: of the
 * conflist, of the registry, and what an override of a workload can say. Pools are left out: they are the user's. Pure.
 */
export function installedSettings(snapshot: InstalledObjects): InstalledSettings {
  const { objects, nodes, tool } = snapshot;
  const container = agentContainerIn(objects);
  const prefix = variableIn(container, 'NETPLUG_INTERFACE_PREFIX');
  const circumstances = {
    variant: variantOf(objects),
    datastore: datastoreIn(container),
    defaultPools: [],
    nodes: nodes.length,
    ...(prefix === undefined ? {} : { interfacePrefix: prefix }),
  };
  const shown = shownBy(objects);
  const plain = objectOf(FIELD_ROWS.map(([path, { read }]) => [path, read?.(shown)]));
  const release = oldestRelease(snapshot) ?? tool;
  const rendered = clusterObjects(settingsOf(plain, { ...circumstances, release })).flatMap((stage) => stage.objects);
  // What a user has edited in a workload differs from the one that is rendered without overrides.
  const overrides = FIELD_ROWS.map(([path, { override }]) => {
    if (override === undefined) return [path, undefined] as const;
    const [live, own] = [objects, rendered].map((all) => findNamed(all, override.kind, override.name));
    const found = live && own && overrideOf(live, own);
    return [path, found && { ...recordIn(plain, path), ...found }] as const;
  });
  return { spec: { ...plain, ...objectOf(overrides) }, circumstances };
}

/** Returns the names of the Secrets with which a workload's images are pulled. */
export function pullSecretsIn(workload: Manifest): readonly string[] {
  return listIn(podSpecIn(workload), 'imagePullSecrets').map((secret) => textIn(secret, 'name'));
}

function shownBy(objects: readonly Manifest[]): ShownObjects {
  const container = agentContainerIn(objects);
  const config = recordIn(findNamed(objects, 'ConfigMap', CONFIG_MAP) ?? {}, 'data');
  const kept = (name: string): string | undefined => (Object.hasOwn(config, name) ? textIn(config, name) : undefined);
  const conflist = tryParseJson(textIn(config, 'conflist'));
  const plugins = isRecord(conflist) ? listIn(conflist, 'plugins') : [];
  return {
    plugin: isRecord(conflist) ? (plugins[0] ?? {}) : undefined,
    chained: plugins.slice(1),
    variable: (name) => variableIn(container, name) ?? kept(name),
    registry: registryIn(textIn(container, 'image')),
    pullSecrets: pullSecretsIn(findNamed(objects, 'DaemonSet', AGENT_SET) ?? {}),
    replicas: recordIn(findNamed(objects, 'Deployment', CONTROLLERS) ?? {}, 'spec')['replicas'],
    typhaReplicas: usesFanOut(objects)
      ? recordIn(findNamed(objects, 'Deployment', TYPHA) ?? {}, 'spec')['replicas']
      : undefined,
    hasBird: findNamed(objects, 'DaemonSet', BIRD_SET) !== undefined,
    withoutAdmission: textIn(config, ADMISSION_KEY) === 'Disabled',
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
  const changed = listIn(theirs, 'env').flatMap((variable) => {
    const [name, value] = [textIn(variable, 'name'), variable['value']];
    const isEdit = typeof value === 'string' && variableIn(mine, name) !== value && name !== DIGESTS_VARIABLE;
    return isEdit ? [[name, value] as const] : [];
  });
  const resources = theirs['resources'];
  // The API leaves out an empty list.
  const { tolerations = [] } = podSpecIn(live);
  const selector = recordIn(podSpecIn(live), 'nodeSelector');
  const further = Object.entries(selector).filter(([key]) => key !== 'kubernetes.io/os');
  const [labels, annotations] = [furtherOf('labels', live, own), furtherOf('annotations', live, own)];
  const override = {
    ...(changed.length === 0 ? {} : { env: Object.fromEntries(changed) }),
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
  const further = Object.entries(theirs).filter(([key]) => !Object.hasOwn(mine, key) && key !== RESTARTED_AT);
  return Object.fromEntries(further);
}
