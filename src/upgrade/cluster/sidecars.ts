import { isNewerVersion } from '../../base/compare-versions.ts';
import { ownValue } from '../../base/own-value.ts';
import { referenceKey } from '../../kube/objects/reference.ts';
import type { Manifest } from '../../model/manifest.ts';
import { SIDECAR } from '../../model/declared-sidecar.ts';
import { releaseIn } from '../../model/image-release.ts';
import { listIn, podSpecIn, recordIn, textIn } from './objects-in.ts';
import type { SidecarWorkload } from './snapshot.ts';

/** What a user restarts to get new pods. */
export type PodOwner = Pick<SidecarWorkload, 'kind' | 'namespace' | 'name'>;

/** The image of the sidecar of one pod, and what the pod belongs to. */
export interface SidecarOfPod {
  readonly workload: PodOwner;
  readonly image: string;
}

/** Returns the workloads of the pods, each with what the images of its sidecars say. Pure. */
export function sidecarWorkloads(pods: readonly SidecarOfPod[]): readonly SidecarWorkload[] {
  return [...Map.groupBy(pods, ({ workload }) => referenceKey(workload)).values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const releases = group
      .flatMap(({ image }) => releaseIn(image) ?? [])
      .toSorted((a, b) => (isNewerVersion(a, b) ? 1 : -1));
    const [version, newest] = [releases[0], releases.at(-1)];
    const unknown = group.find(({ image }) => releaseIn(image) === undefined)?.image;
    return [
      {
        ...first.workload,
        ...(version === undefined || newest === undefined ? {} : { version, newest }),
        ...(unknown === undefined ? {} : { unknownImage: unknown }),
      },
    ];
  });
}

/** Reports whether a pod of the workload has a sidecar of an earlier release. */
export function hasOlderSidecar({ version }: SidecarWorkload, release: string): boolean {
  return version !== undefined && isNewerVersion(release, version);
}

/** Reports whether a pod of the workload has a sidecar of a later release. */
export function hasNewerSidecar({ newest }: SidecarWorkload, release: string): boolean {
  return newest !== undefined && isNewerVersion(newest, release);
}

/** Why the tool does not restart a workload, and the command with which a user goes on. */
export interface LeftToUser {
  readonly why: string;
  readonly command: readonly string[];
}

/** Returns the arguments by which kubectl knows a workload. */
export function kubectlTarget({ kind, namespace, name }: PodOwner): readonly string[] {
  return [`${kind.toLowerCase()}/${name}`, '-n', namespace];
}

/** Workloads that `kubectl rollout restart` takes. */
export const RESTARTABLE: readonly string[] = ['Deployment', 'StatefulSet', 'DaemonSet'];
const WHY: Readonly<Record<string, string>> = {
  Pod: 'no workload makes it again: create it from its manifest once more',
  Job: 'a Job is not restarted: the pods of its next run get the new sidecar',
  ReplicaSet: 'a ReplicaSet without a Deployment does not replace its pods: delete one after the other',
};

/**
 * Returns why a workload with a sidecar that is not of this release is left to the user; undefined for one that the tool restarts.
 * Without the object, as in a saved snapshot, its kind and image decide. Pure.
 */
export function leftToUser(sidecars: SidecarWorkload, release: string, object?: Manifest): LeftToUser | undefined {
  const { kind, namespace, unknownImage } = sidecars;
  const which = kubectlTarget(sidecars);
  const pods = ['kubectl', 'get', 'pods', '-n', namespace];
  if (!RESTARTABLE.includes(kind))
    return { why: ownValue(WHY, kind) ?? `how a ${kind} is restarted is not known`, command: pods };
  if (!hasOlderSidecar(sidecars, release)) {
    const why = `the image of its sidecar, ${JSON.stringify(unknownImage ?? '')}, names no release`;
    return { why, command: ['kubectl', 'rollout', 'restart', ...which] };
  }
  // A restart gives its pods what the template names, whatever the mesh injects.
  if (object !== undefined && sidecarContainer(podSpecIn(object)) !== undefined)
    return { why: 'its own template names the sidecar', command: ['kubectl', 'edit', ...which] };
  const spec = recordIn(object ?? {}, 'spec');
  if (spec['paused'] === true)
    return { why: 'its roll-outs are paused', command: ['kubectl', 'rollout', 'resume', ...which] };
  const strategy = recordIn(spec, 'updateStrategy');
  if (strategy['type'] === 'OnDelete')
    return { why: 'its pods are replaced only when they are deleted (OnDelete)', command: pods };
  const { partition } = recordIn(strategy, 'rollingUpdate');
  if (typeof partition === 'number' && partition > 0)
    return { why: `its roll-outs leave pods below partition ${String(partition)} as they are`, command: pods };
  return undefined;
}

/** Returns the container of the sidecar in the spec of a pod, or of the pods of a workload; undefined without one. */
export function sidecarContainer(
  spec: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> | undefined {
  const containers = [...listIn(spec, 'initContainers'), ...listIn(spec, 'containers')];
  return containers.find((each) => textIn(each, 'name') === SIDECAR);
}
