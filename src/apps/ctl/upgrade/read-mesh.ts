import { type ApiObject, isLeaving } from '../../../kube/objects.ts';
import { kindCollection } from '../../../kube/objects/reference.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { PODS } from '../../../kube/paths.ts';
import { SIDECAR } from '../../../model/declared-sidecar.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { containersIn, listIn, recordIn, releaseIn, textIn } from '../../../upgrade/cluster/objects-in.ts';
import type { SidecarWorkload } from '../../../upgrade/cluster/snapshot.ts';

const REPLICA_SETS = { group: 'apps', version: 'v1', plural: 'replicasets' } as const;
const DISCOVERY = { labelSelector: 'app=istiod' } as const;

export interface MeshState {
  /** The whole version of the mesh, the oldest of several revisions; undefined without a mesh. */
  readonly mesh: string | undefined;
  readonly sidecars: readonly SidecarWorkload[];
}

/**
 * Reads which workloads have pods with a sidecar, each with the oldest release of its pods, and the version of the mesh. An injected
 * sidecar is only in pods, a native one among their init containers. @throws store/*
 */
export async function readMesh(api: OrchApi, signal: AbortSignal): Promise<MeshState> {
  const [discovery, pods] = await Promise.all([
    api.list(kindCollection('Deployment'), DISCOVERY, signal),
    api.list(PODS, {}, signal),
  ]);
  const found = new Map<string, SidecarWorkload>();
  for (const pod of pods.filter((each) => !isLeaving(each))) {
    const version = sidecarRelease(pod);
    if (version === undefined) continue;
    const workload = await workloadOf(api, pod, signal);
    const key = JSON.stringify(workload);
    const known = found.get(key)?.version;
    if (known === undefined || isOlder(version, known)) found.set(key, { ...workload, version });
  }
  return { mesh: oldestOf(discovery.flatMap(meshVersion)), sidecars: [...found.values()] };
}

function sidecarRelease(pod: ApiObject): string | undefined {
  const spec = recordIn(pod, 'spec');
  const container = [...listIn(spec, 'initContainers'), ...listIn(spec, 'containers')].find(
    (each) => textIn(each, 'name') === SIDECAR,
  );
  return container === undefined ? undefined : releaseIn(textIn(container, 'image'));
}

/** Returns what a user restarts to get new pods: by owners up to a workload, or to a kind that is not known. */
async function workloadOf(
  api: OrchApi,
  pod: ApiObject,
  signal: AbortSignal,
): Promise<Omit<SidecarWorkload, 'version'>> {
  const { name, namespace = '' } = pod.metadata;
  const owner = ownerIn(pod);
  if (owner === undefined) return { kind: 'Pod', namespace, name };
  if (owner.kind !== 'ReplicaSet') return { ...owner, namespace };
  const set = await api.get({ ...REPLICA_SETS, namespace }, owner.name, signal);
  const above = set.outcome === 'ok' ? ownerIn(set.value) : undefined;
  return { ...(above ?? owner), namespace };
}

function ownerIn({ metadata }: ApiObject): { readonly kind: string; readonly name: string } | undefined {
  const owners: unknown = (metadata as { readonly ownerReferences?: unknown }).ownerReferences;
  const owner = (Array.isArray(owners) ? owners : []).find((each) => isRecord(each) && each['controller'] === true);
  return isRecord(owner) ? { kind: textIn(owner, 'kind'), name: textIn(owner, 'name') } : undefined;
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
