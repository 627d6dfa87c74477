import { NetplugError } from '../../base/errors.ts';
import { isNewerVersion } from '../../base/compare-versions.ts';
import type { Manifest } from '../../model/manifest.ts';
import type { PodState } from '../../kube/status/pod-state.ts';
import { AGENT_SET, hasFollowingPods, OPERATOR } from '../../install/cluster/names.ts';
import { TYPHA } from '../../model/typha.ts';
import type { Variant } from '../../install/cluster/settings.ts';
import { CONTROLLERS } from '../../model/automatic-host-endpoint.ts';
import { RELEASE_NAME_ANNOTATION } from './chart-owner.ts';
import { releaseIn } from '../../model/image-release.ts';
import { agentContainerIn, findNamed, metadataIn, variableIn, workloadRelease } from './objects-in.ts';
import type { ClusterSnapshot, DetectedInstallation, UpgradeMethod } from './snapshot.ts';

const WORKLOADS = [
  ['DaemonSet', AGENT_SET],
  ['Deployment', CONTROLLERS],
  ['Deployment', TYPHA],
  ['Deployment', OPERATOR],
] as const;

/**
 * Returns how netplug was installed, what of it, and in which releases. Pure.
 * @throws upgrade/not-installed when there is no DaemonSet of the agent and no operator, upgrade/refused for a method that the user
 *   named and the cluster does not have
 */
export function detectInstallation(snapshot: ClusterSnapshot): DetectedInstallation {
  const { objects, charts } = snapshot;
  const agent = findNamed(objects, 'DaemonSet', AGENT_SET);
  const operator = findNamed(objects, 'Deployment', OPERATOR);
  if (agent === undefined && operator === undefined) {
    throw new NetplugError(
      'upgrade/not-installed',
      `Cannot plan an upgrade: the cluster has neither a DaemonSet "${AGENT_SET}" nor a Deployment "${OPERATOR}"`,
      { hint: 'Install netplug with "netplugctl install cluster", or name another cluster with --context' },
    );
  }
  const recorded = charts.find(({ name }) => name === chartReleaseOf(operator)) ?? charts[0];
  const method = snapshot.method ?? methodOf(operator, recorded !== undefined);
  refuseOtherMethod(method, { operator, isRecorded: recorded !== undefined });
  // A record that is left over from another method is none of this one's concern.
  const chart = method === 'chart' ? recorded : undefined;
  return {
    method,
    variant: variantOf(objects),
    datastore: snapshot.datastore.type,
    releases: releasesOf(snapshot),
    from: oldestRelease(snapshot),
    chart,
  };
}

function methodOf(operator: Manifest | undefined, isChart: boolean): UpgradeMethod {
  if (isChart) return 'chart';
  return operator === undefined ? 'manifest' : 'operator';
}

/** Another method would leave the objects to two owners, or find nothing to upgrade. */
function refuseOtherMethod(
  method: UpgradeMethod,
  { operator, isRecorded }: { readonly operator: Manifest | undefined; readonly isRecorded: boolean },
): void {
  const why: Readonly<Record<UpgradeMethod, string | undefined>> = {
    operator: operator === undefined ? `there is no Deployment "${OPERATOR}"` : undefined,
    chart: isRecorded ? undefined : 'no record of helm holds objects of netplug',
    manifest: operator === undefined ? undefined : `the Deployment "${OPERATOR}" would put its own objects back`,
  };
  if (why[method] === undefined) return;
  throw new NetplugError('upgrade/refused', `Cannot upgrade by method "${method}": ${why[method]}`, {
    hint: 'Leave the method out: the tool finds out how netplug was installed',
  });
}

/** The chart's tool marks what it has made. */
function chartReleaseOf(operator: Manifest | undefined): string | undefined {
  return operator === undefined ? undefined : metadataIn(operator).annotations[RELEASE_NAME_ANNOTATION];
}

/** Returns what of netplug is installed: everything, as long as there is no agent. */
export function variantOf(objects: readonly Manifest[]): Variant {
  const container = agentContainerIn(objects);
  if ((variableIn(container, 'NETPLUG_NETWORKING') ?? 'on') === 'on') return 'policy-and-networking';
  return variableIn(container, 'NETPLUG_CONFLIST_FILE') === undefined ? 'policy-only' : 'second-plugin';
}

/** Returns the oldest release that is installed or runs; undefined when nothing tells one. */
export function oldestRelease(snapshot: Pick<ClusterSnapshot, 'objects' | 'pods'>): string | undefined {
  return lowest([...Object.values(releasesOf(snapshot)), ...podReleases(snapshot)]);
}

function releasesOf({ objects }: Pick<ClusterSnapshot, 'objects'>): Readonly<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const [kind, name] of WORKLOADS) {
    const object = findNamed(objects, kind, name);
    const release = object === undefined ? undefined : workloadRelease(object);
    if (release !== undefined) found[name] = release;
  }
  return found;
}

function podReleases({ pods }: Pick<ClusterSnapshot, 'pods'>): readonly string[] {
  return followingPods(pods).flatMap(({ images }) => images.flatMap((image) => releaseIn(image) ?? []));
}

/** Returns the pods that an upgrade replaces: not those of BIRD, and not those that have ended, as by eviction, and are kept as a record. */
export function followingPods(pods: readonly PodState[]): readonly PodState[] {
  return pods.filter(({ component, phase }) => hasFollowingPods(component) && !['failed', 'succeeded'].includes(phase));
}

function lowest(releases: readonly string[]): string | undefined {
  return releases.reduce<string | undefined>(
    (least, release) => (least === undefined || isNewerVersion(least, release) ? release : least),
    undefined,
  );
}
