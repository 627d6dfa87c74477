import { crdManifests } from '../../../install/cluster/definitions/crd-manifests.ts';
import type { Manifest } from '../../../model/manifest.ts';
import * as v from 'valibot';
import { compareDefinitions } from '../../../install/cluster/checks/compare-definitions.ts';
import type {
  PreflightFacts,
  DefinitionFact,
  InstallMethod,
  NamedRange,
  NodeFact,
} from '../../../install/cluster/checks/preflight-facts.ts';
import { AGENT_SET, HEALTH_PORTS, OPERATOR, SYSTEM_NAMESPACE } from '../../../install/cluster/names.ts';
import { API_VERSION } from '../../../model/resource.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { LEASES, NODES, PODS } from '../../../kube/paths.ts';
import { collectionHolding, referenceOf } from '../../../kube/objects/reference.ts';

export const DEFINITIONS = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  plural: 'customresourcedefinitions',
} as const;
export const DAEMON_SETS = { group: 'apps', version: 'v1', plural: 'daemonsets' } as const;
export const DEPLOYMENTS = { group: 'apps', version: 'v1', plural: 'deployments' } as const;
const NODE_LEASES = { ...LEASES, namespace: 'kube-node-lease' } as const;
const SERVICE_CIDRS = { group: 'networking.k8s.io', version: 'v1', plural: 'servicecidrs' } as const;
const REVIEWS = { group: 'authorization.k8s.io', version: 'v1', plural: 'selfsubjectaccessreviews' } as const;
const HOOKS = ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'] as const;
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
  const serverVersion = await api.serverVersion(signal);
  const missingRights = await findMissingRights(api, rights, signal);
  const none = { nodes: [], serviceCidrs: [], pools: [], foreignPlugins: [], portHolders: [], definitions: [] };
  if (missingRights.length > 0) {
    return {
      ...none,
      serverVersion,
      missingRights,
      certificateFaults,
      podWebhooks: [],
      release: undefined,
      installedBy: undefined,
    };
  }
  const definitions = await readDefinitions(api, signal);
  const served = new Set(definitions.map(({ name }) => name));
  const [nodes, serviceCidrs, sets, podWebhooks, portHolders] = await Promise.all([
    readNodes(api, signal),
    readServiceCidrs(api, signal),
    api.list(DAEMON_SETS, { only: 'names' }, signal),
    readWebhooks(api, signal),
    readPortHolders(api, signal),
  ]);
  return {
    serverVersion,
    nodes,
    serviceCidrs,
    pools: served.has(`ippools.${OWN_GROUP}`) ? await readRanges(api, signal) : [],
    foreignPlugins: sets
      .filter(({ metadata }) => PLUGIN_SETS.test(metadata.name))
      .map(({ metadata }) => `${metadata.namespace ?? ''}/${metadata.name}`),
    portHolders,
    definitions,
    release: served.has(`clusterinformations.${OWN_GROUP}`) ? await readRelease(api, signal) : undefined,
    installedBy: await findMethod(api, signal),
    missingRights,
    podWebhooks,
    certificateFaults,
  };
}

/** A right on an object that is written. */
export interface NeededRight {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly namespace?: string;
}

/** Returns the rights to write and delete these objects. */
export function rightsForObjects(objects: readonly Manifest[], verbs: readonly string[]): readonly NeededRight[] {
  const rights = objects.flatMap((object) => {
    const { group, plural: resource, namespace } = collectionHolding(referenceOf(object));
    return verbs.map((verb) => ({ verb, group, resource, ...(namespace === undefined ? {} : { namespace }) }));
  });
  return [...new Map(rights.map((right) => [JSON.stringify(right), right])).values()];
}

/** Returns those of the rights that the caller lacks, as text. */
export async function findMissingRights(
  api: OrchApi,
  rights: readonly NeededRight[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const answers = await Promise.all(
    rights.map(async (right) => {
      const spec = { resourceAttributes: right };
      const status = await api.review(
        REVIEWS,
        { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec },
        signal,
      );
      return status['allowed'] === true ? [] : [describe(right)];
    }),
  );
  return answers.flat();
}

function describe({ verb, group, resource, namespace }: NeededRight): string {
  return `${verb} ${resource}${group === '' ? '' : `.${group}`}${namespace === undefined ? '' : ` in namespace ${namespace}`}`;
}

const Condition = v.looseObject({
  type: v.string(),
  status: v.string(),
  reason: v.optional(v.string()),
  message: v.optional(v.string()),
});
const NodeShape = v.object({
  spec: v.optional(v.looseObject({ podCIDRs: v.optional(v.array(v.string())), podCIDR: v.optional(v.string()) })),
  status: v.looseObject({
    addresses: v.optional(v.array(v.looseObject({ type: v.string(), address: v.string() }))),
    conditions: v.optional(v.array(Condition)),
    nodeInfo: v.optional(
      v.looseObject({ kernelVersion: v.string(), operatingSystem: v.string(), architecture: v.string() }),
    ),
  }),
});
const LeaseShape = v.object({
  metadata: v.looseObject({
    managedFields: v.optional(v.array(v.looseObject({ time: v.optional(v.string()) }))),
  }),
  spec: v.looseObject({ renewTime: v.optional(v.string()) }),
});

async function readNodes(api: OrchApi, signal: AbortSignal): Promise<readonly NodeFact[]> {
  const [nodes, leases] = await Promise.all([api.list(NODES, {}, signal), api.list(NODE_LEASES, {}, signal)]);
  const ahead = new Map(leases.map((lease) => [lease.metadata.name, aheadOf(lease)]));
  return nodes.flatMap((node): NodeFact[] => {
    const read = v.safeParse(NodeShape, node);
    if (!read.success) return [];
    const { spec = {}, status } = read.output;
    const ready = status.conditions?.find(({ type }) => type === 'Ready');
    const addresses = (status.addresses ?? []).filter(({ type }) => type.endsWith('IP')).map(({ address }) => address);
    return [
      {
        name: node.metadata.name,
        os: status.nodeInfo?.operatingSystem ?? node.metadata.labels?.['kubernetes.io/os'] ?? '',
        kernel: status.nodeInfo?.kernelVersion ?? '',
        architecture: status.nodeInfo?.architecture ?? '',
        addresses: addresses.map((address) => `${address}/${address.includes(':') ? '128' : '32'}`),
        podCidrs: spec.podCIDRs ?? (spec.podCIDR === undefined ? [] : [spec.podCIDR]),
        notReady: ready?.status === 'True' ? undefined : `${ready?.reason ?? 'no condition'}: ${ready?.message ?? ''}`,
        clockAheadMs: ahead.get(node.metadata.name),
      },
    ];
  });
}

/** The kubelet writes the time of its node, and the API server notes its own beside it in whole seconds. */
function aheadOf(lease: ApiObject): number | undefined {
  const read = v.safeParse(LeaseShape, lease);
  if (!read.success) return undefined;
  const times = (read.output.metadata.managedFields ?? []).map(({ time }) => Date.parse(time ?? ''));
  const [own, server] = [Date.parse(read.output.spec.renewTime ?? ''), Math.max(...times)];
  return Number.isFinite(own) && Number.isFinite(server) ? own - server : undefined;
}

const ServiceCidr = v.object({ spec: v.looseObject({ cidrs: v.optional(v.array(v.string())) }) });

async function readServiceCidrs(api: OrchApi, signal: AbortSignal): Promise<readonly string[]> {
  const objects = await api.list(SERVICE_CIDRS, {}, signal);
  return objects.flatMap((object) => {
    const read = v.safeParse(ServiceCidr, object);
    return read.success ? (read.output.spec.cidrs ?? []) : [];
  });
}

const Range = v.object({ spec: v.looseObject({ cidr: v.string() }) });

async function readRanges(api: OrchApi, signal: AbortSignal): Promise<readonly NamedRange[]> {
  return (await api.list({ ...OWN, plural: 'ippools' }, {}, signal)).flatMap((pool) => {
    const read = v.safeParse(Range, pool);
    return read.success ? [{ name: pool.metadata.name, cidr: read.output.spec.cidr }] : [];
  });
}

const Information = v.object({ spec: v.looseObject({ netplugVersion: v.optional(v.string()) }) });

async function readRelease(api: OrchApi, signal: AbortSignal): Promise<string | undefined> {
  const answer = await api.get({ ...OWN, plural: 'clusterinformations' }, 'default', signal);
  const read = v.safeParse(Information, answer.outcome === 'ok' ? answer.value : undefined);
  return read.success ? read.output.spec.netplugVersion : undefined;
}

async function readDefinitions(api: OrchApi, signal: AbortSignal): Promise<readonly DefinitionFact[]> {
  const found = await Promise.all(
    crdManifests().map(async (own) => {
      const { name } = referenceOf(own);
      const answer = await api.get(DEFINITIONS, name, signal);
      return answer.outcome === 'ok' ? [{ name, ...compareDefinitions(answer.value, own) }] : [];
    }),
  );
  return found.flat();
}

/** Returns how netplug was installed: by the release of helm that the operator belongs to, by the operator, or without one. */
export async function findMethod(api: OrchApi, signal: AbortSignal): Promise<InstallMethod | undefined> {
  const place = { namespace: SYSTEM_NAMESPACE };
  const operator = await api.get({ ...DEPLOYMENTS, ...place }, OPERATOR, signal);
  if (operator.outcome === 'ok') return helmReleaseOf(operator.value) === undefined ? 'operator' : 'chart';
  const agent = await api.get({ ...DAEMON_SETS, ...place }, AGENT_SET, signal);
  return agent.outcome === 'ok' ? 'manifest' : undefined;
}

/** Returns the release of helm that an object belongs to. */
export function helmReleaseOf({
  metadata,
}: ApiObject): { readonly name: string; readonly namespace: string } | undefined {
  const { annotations } = metadata;
  const [name, namespace] = [
    annotations?.['meta.helm.sh/release-name'],
    annotations?.['meta.helm.sh/release-namespace'],
  ];
  return name === undefined || namespace === undefined ? undefined : { name, namespace };
}

const Hooks = v.object({
  webhooks: v.optional(
    v.array(
      v.looseObject({
        clientConfig: v.looseObject({
          service: v.optional(v.looseObject({ namespace: v.string(), name: v.string() })),
        }),
        rules: v.optional(
          v.array(
            v.looseObject({ resources: v.optional(v.array(v.string())), operations: v.optional(v.array(v.string())) }),
          ),
        ),
        namespaceSelector: v.optional(
          v.looseObject({
            matchLabels: v.optional(v.record(v.string(), v.string())),
            matchExpressions: v.optional(v.array(v.unknown())),
          }),
        ),
      }),
    ),
  ),
});

/** A webhook with a selector of namespaces is taken to exclude that of netplug. */
async function readWebhooks(api: OrchApi, signal: AbortSignal): Promise<readonly string[]> {
  const lists = await Promise.all(
    HOOKS.map(async (plural) => api.list({ group: 'admissionregistration.k8s.io', version: 'v1', plural }, {}, signal)),
  );
  return lists.flat().flatMap((object) => {
    const read = v.safeParse(Hooks, object);
    const hooks = read.success ? (read.output.webhooks ?? []) : [];
    const isCalled = hooks.some(({ clientConfig, rules = [], namespaceSelector = {} }) => {
      const concernsPods = rules.some(({ resources = [] }) =>
        resources.some((name) => name === 'pods' || name === '*'),
      );
      const isSelective = [namespaceSelector.matchLabels, namespaceSelector.matchExpressions].some(
        (each) => each !== undefined && Object.keys(each).length > 0,
      );
      return clientConfig.service !== undefined && concernsPods && !isSelective;
    });
    return isCalled ? [`WebhookConfiguration ${object.metadata.name}`] : [];
  });
}

const PodShape = v.object({
  spec: v.looseObject({
    hostNetwork: v.optional(v.boolean()),
    containers: v.array(
      v.looseObject({
        ports: v.optional(
          v.array(v.looseObject({ hostPort: v.optional(v.number()), containerPort: v.optional(v.number()) })),
        ),
      }),
    ),
  }),
});

async function readPortHolders(api: OrchApi, signal: AbortSignal): Promise<PreflightFacts['portHolders']> {
  const pods = await api.list(PODS, {}, signal);
  return pods.flatMap((pod) => {
    if (pod.metadata.namespace === SYSTEM_NAMESPACE) return [];
    const read = v.safeParse(PodShape, pod);
    if (!read.success) return [];
    const { hostNetwork = false, containers } = read.output.spec;
    const ports = containers.flatMap(({ ports = [] }) =>
      ports.flatMap(({ hostPort, containerPort }) => [hostPort, hostNetwork ? containerPort : undefined]),
    );
    const held = OWN_PORTS.filter((port) => ports.includes(port));
    return held.map((port) => ({ pod: `${pod.metadata.namespace ?? ''}/${pod.metadata.name}`, port }));
  });
}
