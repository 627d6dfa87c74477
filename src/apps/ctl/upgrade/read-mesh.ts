import { type ApiObject, isLeaving } from '../../../kube/objects.ts';
import { kindCollection } from '../../../kube/objects/reference.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { isObjectName, PODS, UNFINISHED_PODS } from '../../../kube/paths.ts';
import { containersIn, listIn, recordIn, textIn } from '../../../upgrade/cluster/objects-in.ts';
import {
  sidecarContainer,
  type SidecarOfPod,
  sidecarWorkloads,
  type PodOwner,
} from '../../../upgrade/cluster/sidecars.ts';
import type { SidecarWorkload } from '../../../upgrade/cluster/snapshot.ts';

/** Name of the Deployment of a default control plane, and label of all. */
export const CONTROL_PLANE = 'istiod';
/** Groups of kinds that go by their name alone. */
const OF_KUBERNETES = ['', 'apps', 'batch'];

export interface MeshState {
  /** The whole version of the mesh, the oldest of several revisions; undefined without a mesh. */
  readonly mesh: string | undefined;
  readonly sidecars: readonly SidecarWorkload[];
}

/** Reads which workloads have pods with a sidecar, and the version of the mesh. @throws store/* */
export async function readMesh(api: OrchApi, signal: AbortSignal): Promise<MeshState> {
  const [planes, sidecars] = await Promise.all([readControlPlanes(api, signal), readSidecars(api, {}, signal)]);
  return { mesh: oldestOf(planes.flatMap(meshVersion)), sidecars };
}

/**
 * Reads the control planes of meshes, of every revision: those whose Service, which has the name of the Deployment, the API server
 * asks about new pods. A user with rights in one namespace can give a Deployment there the label, but not have it asked.
 * @throws store/*
 */
export async function readControlPlanes(api: OrchApi, signal: AbortSignal): Promise<readonly ApiObject[]> {
  const labelled = await api.list(kindCollection('Deployment'), { labelSelector: `app=${CONTROL_PLANE}` }, signal);
  if (labelled.length === 0) return [];
  const asked = new Set(
    (await api.list(kindCollection('MutatingWebhookConfiguration'), {}, signal)).flatMap(askedServices),
  );
  return labelled.filter(({ metadata: { name, namespace = '' } }) => asked.has(`${namespace}/${name}`));
}

/** Returns the Services of the webhooks of a configuration, as `istio-system/istiod`. */
function askedServices(configuration: ApiObject): readonly string[] {
  return listIn(configuration, 'webhooks').map((hook) => {
    const service = recordIn(recordIn(hook, 'clientConfig'), 'service');
    return `${textIn(service, 'namespace')}/${textIn(service, 'name')}`;
  });
}

/**
 * Reads which workloads have pods with a sidecar, in one namespace or in all. An injected sidecar is only in pods, a native one among
 * their init containers. @throws store/*
 */
export async function readSidecars(
  api: OrchApi,
  { namespace }: { readonly namespace?: string | undefined },
  signal: AbortSignal,
): Promise<readonly SidecarWorkload[]> {
  const pods = await api.list({ ...PODS, ...(namespace === undefined ? {} : { namespace }) }, UNFINISHED_PODS, signal);
  const withSidecar = pods.flatMap((pod) => {
    const image = isLeaving(pod) ? undefined : sidecarImageIn(pod);
    return image === undefined ? [] : [{ pod, image }];
  });
  const isOfSet = withSidecar.some(({ pod }) => ownerIn(pod)?.kind === 'ReplicaSet');
  const sets = isOfSet ? await ownersOfSets(api, { namespace }, signal) : new Map<string, Owner>();
  return sidecarWorkloads(
    withSidecar.map(({ pod, image }): SidecarOfPod => {
      const owner = podOwner(pod);
      return { image, workload: { ...owner, ...(owner.kind === 'ReplicaSet' ? sets.get(setKey(owner)) : {}) } };
    }),
  );
}

/** Returns the owners of all ReplicaSets that have one. Their metadata holds it: one listing replaces a read for each. */
async function ownersOfSets(
  api: OrchApi,
  { namespace }: { readonly namespace?: string | undefined },
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Owner>> {
  const sets = await api.list(kindCollection('ReplicaSet', namespace), { only: 'names' }, signal);
  return new Map(
    sets.flatMap((set) => {
      const owner = ownerIn(set);
      const { name, namespace: of = '' } = set.metadata;
      return owner === undefined ? [] : [[setKey({ name, namespace: of }), owner]];
    }),
  );
}

function setKey({ namespace, name }: Pick<PodOwner, 'namespace' | 'name'>): string {
  return `${namespace}/${name}`;
}

/** Returns the image of the sidecar of a pod; undefined for a pod without one. */
export function sidecarImageIn(pod: ApiObject): string | undefined {
  const container = sidecarContainer(recordIn(pod, 'spec'));
  return container === undefined ? undefined : textIn(container, 'image');
}

/**
 * Returns a function that finds what a user restarts to get new pods: by owners up to a workload, or to a kind that is not known. It
 * reads each ReplicaSet once.
 */
export function workloadFinder(api: OrchApi, signal: AbortSignal): (pod: ApiObject) => Promise<PodOwner> {
  const ofSets = new Map<string, Owner>();
  return async (pod) => {
    const owner = podOwner(pod);
    if (owner.kind !== 'ReplicaSet') return owner;
    const key = setKey(owner);
    const known = ofSets.get(key);
    if (known !== undefined) return { ...owner, ...known };
    const set = await api.get(kindCollection('ReplicaSet', owner.namespace), owner.name, signal);
    const above = (set.outcome === 'ok' ? ownerIn(set.value) : undefined) ?? owner;
    ofSets.set(key, above);
    return { ...owner, ...above };
  };
}

/** Returns what has made a pod; the pod itself without an owner. */
function podOwner(pod: ApiObject): PodOwner {
  const { name, namespace = '' } = pod.metadata;
  return { ...(ownerIn(pod) ?? { kind: 'Pod', name }), namespace };
}

type Owner = Pick<PodOwner, 'kind' | 'name'>;

function ownerIn({ metadata }: ApiObject): Owner | undefined {
  const owner = listIn(metadata, 'ownerReferences').find((each) => each['controller'] === true);
  // The API checks nothing of it, and users who make pods write it: no object has another name.
  if (owner === undefined || !isObjectName(textIn(owner, 'name'))) return undefined;
  const [kind, version] = [textIn(owner, 'kind'), textIn(owner, 'apiVersion')];
  const group = version.includes('/') ? version.slice(0, version.indexOf('/')) : '';
  return { kind: OF_KUBERNETES.includes(group) ? kind : `${kind}.${group}`, name: textIn(owner, 'name') };
}

/** Returns the whole version that the image of a control plane names; none for another Deployment. */
export function meshVersion(deployment: ApiObject): readonly string[] {
  return containersIn(deployment).flatMap((each) => /\/pilot:([\w.-]+)/.exec(textIn(each, 'image'))?.[1] ?? []);
}

function oldestOf(versions: readonly string[]): string | undefined {
  return versions.toSorted((a, b) => (isOlder(a, b) ? -1 : Number(isOlder(b, a))))[0];
}

function isOlder(one: string, other: string): boolean {
  return one.localeCompare(other, 'en', { numeric: true }) < 0;
}
