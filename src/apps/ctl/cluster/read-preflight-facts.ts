import { RELEASE_NAME_ANNOTATION, RELEASE_NAMESPACE_ANNOTATION } from '../../../upgrade/cluster/chart-owner.ts';
import { crdManifests } from '../../../install/cluster/definitions/crd-manifests.ts';
import { compareDefinitions } from '../../../install/cluster/checks/compare-definitions.ts';
import type {
  PreflightFacts,
  DefinitionFact,
  InstallMethod,
  NamedRange,
} from '../../../install/cluster/checks/preflight-facts.ts';
import { AGENT_SET, HEALTH_PORTS, OPERATOR, SYSTEM_NAMESPACE, systemObject } from '../../../install/cluster/names.ts';
import { servesAdmissionPolicies } from '../../../kube/admission-policies.ts';
import { API_VERSION } from '../../../model/resource.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { PODS } from '../../../kube/paths.ts';
import { findObject } from '../../../kube/objects/apply.ts';
import { readServiceRanges } from '../../../kube/service-ranges.ts';
import { kindCollection, referenceOf } from '../../../kube/objects/reference.ts';
import { listIn, recordIn, textIn } from '../../../upgrade/cluster/objects-in.ts';
import { openAttempts } from './attempts.ts';
import type { NeededRight } from './missing-rights.ts';
import { readProxyMode } from './read-proxy-mode.ts';
import { readClusterFacts } from './read-cluster-facts.ts';

const [OWN_GROUP = '', OWN_VERSION = ''] = API_VERSION.split('/');
const OWN = { group: OWN_GROUP, version: OWN_VERSION } as const;

/** DaemonSets of network plugins by the names that their projects give them. */
const PLUGIN_SETS =
  /^(calico-node|canal|cilium|kube-flannel(-ds.*)?|weave-net|kube-router|antrea-agent|kindnet|aws-node|azure-cni.*|kube-ovn-cni|ovnkube-node)$/;
const OWN_PORTS: readonly number[] = Object.values(HEALTH_PORTS);

/** Reads what the API tells about the cluster. `rights` are asked for one by one. @throws store/* */
export async function readPreflightFacts(
  api: OrchApi,
  {
    rights,
    certificateFaults,
  }: { readonly rights: readonly NeededRight[]; readonly certificateFaults: readonly string[] },
  signal: AbortSignal,
): Promise<PreflightFacts> {
  const attempts = openAttempts(signal);
  const cluster = await readClusterFacts(api, { rights, attempts }, signal);
  const definitions = await attempts.read('definitions', [], async () => readDefinitions(api, signal));
  const served = new Set(definitions.map(({ name }) => name));
  const [serviceCidrs, foreignPlugins, portHolders, pools, release, installedBy, servesAdmission, proxyMode] =
    await Promise.all([
      attempts.read('service ranges', [], async () => readServiceRanges(api, signal)),
      attempts.read('plugins', [], async () => readForeignPlugins(api, signal)),
      attempts.read('pods', [], async () => readPortHolders(api, signal)),
      attempts.read('pools', [], async () => (served.has(`ippools.${OWN_GROUP}`) ? readRanges(api, signal) : [])),
      attempts.read('release', undefined, async () =>
        served.has(`clusterinformations.${OWN_GROUP}`) ? readRelease(api, signal) : undefined,
      ),
      attempts.read('method', undefined, async () => findMethod(api, signal)),
      attempts.read('admission', true, async () => servesAdmissionPolicies(await api.servedKinds(signal))),
      attempts.read('service proxy', undefined, async () => readProxyMode(api, signal)),
    ]);
  const { unread } = attempts;
  return {
    ...cluster,
    serviceCidrs,
    pools,
    foreignPlugins,
    portHolders,
    definitions,
    release,
    installedBy,
    servesAdmission,
    proxyMode,
    certificateFaults,
    unread,
  };
}

async function readForeignPlugins(api: OrchApi, signal: AbortSignal): Promise<readonly string[]> {
  const sets = await api.list(kindCollection('DaemonSet'), { only: 'names' }, signal);
  return sets
    .filter(({ metadata }) => PLUGIN_SETS.test(metadata.name))
    .map(({ metadata }) => `${metadata.namespace ?? ''}/${metadata.name}`);
}

async function readRanges(api: OrchApi, signal: AbortSignal): Promise<readonly NamedRange[]> {
  const pools = await api.list({ ...OWN, plural: 'ippools' }, {}, signal);
  return pools
    .map((pool) => ({ name: pool.metadata.name, cidr: textIn(recordIn(pool, 'spec'), 'cidr') }))
    .filter(({ cidr }) => cidr !== '');
}

async function readRelease(api: OrchApi, signal: AbortSignal): Promise<string | undefined> {
  const answer = await api.get({ ...OWN, plural: 'clusterinformations' }, 'default', signal);
  const release = answer.outcome === 'ok' ? textIn(recordIn(answer.value, 'spec'), 'netplugVersion') : '';
  return release === '' ? undefined : release;
}

async function readDefinitions(api: OrchApi, signal: AbortSignal): Promise<readonly DefinitionFact[]> {
  const found = await Promise.all(
    crdManifests().map(async (own) => {
      const which = referenceOf(own);
      const found = await findObject(api, which, signal);
      return found === undefined ? [] : [{ name: which.name, ...compareDefinitions(found, own) }];
    }),
  );
  return found.flat();
}

/** Returns how netplug was installed: by the release of helm that the operator belongs to, by the operator, or without one. */
export async function findMethod(api: OrchApi, signal: AbortSignal): Promise<InstallMethod | undefined> {
  const operator = await findObject(api, systemObject('Deployment', OPERATOR), signal);
  if (operator !== undefined) return helmReleaseOf(operator) === undefined ? 'operator' : 'chart';
  const agent = await findObject(api, systemObject('DaemonSet', AGENT_SET), signal);
  return agent === undefined ? undefined : 'manifest';
}

/** Returns the release of helm that an object belongs to. */
export function helmReleaseOf({
  metadata,
}: ApiObject): { readonly name: string; readonly namespace: string } | undefined {
  const { annotations } = metadata;
  const [name, namespace] = [annotations?.[RELEASE_NAME_ANNOTATION], annotations?.[RELEASE_NAMESPACE_ANNOTATION]];
  return name === undefined || namespace === undefined ? undefined : { name, namespace };
}

async function readPortHolders(api: OrchApi, signal: AbortSignal): Promise<PreflightFacts['portHolders']> {
  const pods = await api.list(PODS, {}, signal);
  return pods.flatMap((pod) => {
    const { namespace = '', name } = pod.metadata;
    if (namespace === SYSTEM_NAMESPACE) return [];
    const spec = recordIn(pod, 'spec');
    const ports = listIn(spec, 'containers')
      .flatMap((container) => listIn(container, 'ports'))
      .flatMap((port) => [port['hostPort'], spec['hostNetwork'] === true ? port['containerPort'] : undefined]);
    return OWN_PORTS.filter((port) => ports.includes(port)).map((port) => ({ pod: `${namespace}/${name}`, port }));
  });
}
