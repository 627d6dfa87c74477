import { NetplugError } from '../../../base/errors.ts';
import { plainVersion } from '../../../base/compare-versions.ts';
import { AGENT_SET, BIRD_SET, hasFollowingPods, OPERATOR } from '../../../install/cluster/names.ts';
import { TYPHA } from '../../../model/typha.ts';
import { CONTROLLERS } from '../../../model/automatic-host-endpoint.ts';
import { agentNodes } from '../../../upgrade/cluster/agent-nodes.ts';
import { followingPods } from '../../../upgrade/cluster/detect-installation.ts';
import { areAgentsHeld } from '../../../upgrade/cluster/held-agents.ts';
import { objectName, referenceKey } from '../../../kube/objects/reference.ts';
import { releaseIn } from '../../../model/image-release.ts';
import { containersIn, findNamed, textIn } from '../../../upgrade/cluster/objects-in.ts';
import { hasOlderSidecar } from '../../../upgrade/cluster/sidecars.ts';
import type { ClusterSnapshot } from '../../../upgrade/cluster/snapshot.ts';
import type { UpgradeTarget } from '../../../upgrade/cluster/target.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { proveNetwork } from '../cluster/prove-network.ts';
import { workloadLag } from '../cluster/wait-ready.ts';
import { mainImage } from './roll-out.ts';
import { proofOf } from './proof.ts';
import { readSnapshot } from './read-snapshot.ts';
import type { UpgradeRun } from './upgrade-run.ts';

/** One thing that must hold after an upgrade. */
export interface Verified {
  readonly what: string;
  readonly isOk: boolean;
  /** Result of the check, with the reason of counts. */
  readonly found: string;
  /** Whether it only says what a user may do later. */
  readonly isNote?: true;
}

/** Judges a snapshot that was taken after the upgrade. Pure. */
export function judgeRelease(snapshot: ClusterSnapshot, target: UpgradeTarget): readonly Verified[] {
  const { release } = target;
  const { objects, pods, datastore } = snapshot;
  const workloads = [AGENT_SET, BIRD_SET, CONTROLLERS, TYPHA, OPERATOR].flatMap((name) => {
    const object = findNamed(objects, 'DaemonSet', name) ?? findNamed(objects, 'Deployment', name);
    return object === undefined ? [] : [{ name, object }];
  });
  const running = pods.filter(({ component }) => workloads.some(({ name }) => name === component));
  const others = followingPods(running).filter(({ images }) => images.some((image) => releaseIn(image) !== release));
  const { clusterVersion } = datastore;
  const nodes = agentNodes(snapshot);
  const without = nodes.filter(
    ({ name }) => !running.some((pod) => pod.component === AGENT_SET && pod.node === name && pod.phase === 'ready'),
  );
  const isCurrent = clusterVersion !== undefined && plainVersion(clusterVersion) === plainVersion(release);
  return [
    ...workloads.flatMap(({ name, object }) => workloadResults(snapshot, { name, object, release })),
    result(
      'every pod has the release',
      others.map(({ name, node, images: [image = ''] }) => `${name} on ${node} has ${releaseIn(image) ?? image}`),
      `${String(running.length)} pods have ${release}`,
    ),
    result(
      'agents follow their DaemonSet',
      areAgentsHeld(snapshot) ? ['a stopped upgrade holds them: run "netplugctl upgrade apply" again'] : [],
      'they are not held',
    ),
    result(
      'every node has a ready agent',
      without.map(({ name }) => `node ${name} has none`),
      `${String(nodes.length)} nodes`,
    ),
    {
      what: `cluster version ${release}`,
      isOk: isCurrent,
      found: `cluster version ${clusterVersion ?? 'unknown'}`,
    },
    {
      what: 'older tools are refused',
      isOk: isCurrent,
      found: isCurrent
        ? `netplugctl before ${release} refuses to write since the cluster has version ${release}; replace every copy of it`
        : 'the record of the cluster does not have the version that makes them refuse',
    },
    result('every record can be read', datastore.unreadable, 'all of them'),
    result(
      'everything could be read',
      snapshot.unread.map(({ fact, why }) => `${fact}: ${why}`),
      'all of it',
    ),
    ...sidecarNotes(snapshot, release),
  ];
}

/** Agents work with older sidecars, so that these are no fault. */
function sidecarNotes({ sidecars }: ClusterSnapshot, release: string): readonly Verified[] {
  const old = sidecars.filter((each) => hasOlderSidecar(each, release) || each.unknownImage !== undefined);
  const names = old.map((each) => {
    const has = hasOlderSidecar(each, release) ? each.version : undefined;
    return `${referenceKey(each)} (${has ?? 'unknown release'})`;
  });
  if (names.length === 0) return [];
  const found = `${names.join(', ')}: they work; "netplugctl upgrade sidecars" restarts them`;
  return [{ what: 'workloads with an older sidecar', isOk: true, isNote: true, found }];
}

/** Compares ready counts with the containers of the manifest that runs (map: up-ready). */
function workloadResults(
  { pods }: ClusterSnapshot,
  { name, object, release }: { readonly name: string; readonly object: Manifest; readonly release: string },
): readonly Verified[] {
  const names = containersIn(object).map((container) => textIn(container, 'name'));
  const own = pods.filter(({ component }) => component === name);
  const unready = own.filter(({ phase }) => phase !== 'ready');
  const count = `${String(names.length)}/${String(names.length)}`;
  const why = `${count} ready each, because the manifest has ${names.length === 1 ? 'the container' : 'the containers'} ${names.join(', ')}`;
  const lag = workloadLag(object);
  const found = releaseIn(mainImage(object));
  return [
    { what: `${objectName(object)} has the release`, isOk: found === release, found: found ?? mainImage(object) },
    {
      what: `${name} is rolled out`,
      isOk: lag === undefined,
      found:
        lag ??
        (hasFollowingPods(name) ? 'every pod is the newest' : 'on every node; a pod is replaced when it is deleted'),
    },
    result(
      `pods of ${name} are ready`,
      unready.map((pod) => `${pod.name}: ${String(pod.readyContainers)}/${String(pod.images.length)}`),
      `${String(own.length)} pods, ${why}`,
    ),
  ];
}

function result(what: string, faults: readonly string[], found: string): Verified {
  return { what, isOk: faults.length === 0, found: faults.length === 0 ? found : faults.join(', ') };
}

export function renderVerified(results: readonly Verified[]): string {
  return results
    .map(
      ({ what, isOk, isNote = false, found }) =>
        `${isNote ? 'note  ' : isOk ? 'ok    ' : 'failed'}  ${what}: ${found}\n`,
    )
    .join('');
}

/** Verifies the release and the network of all nodes. @throws upgrade/not-verified */
export async function verifyRelease(parts: UpgradeRun): Promise<readonly Verified[]> {
  const { session, run, target, proof } = parts;
  const snapshot = await readSnapshot(session, () => target);
  const results = judgeRelease(snapshot, target);
  const failed = results.filter(({ isOk }) => !isOk);
  if (failed.length > 0) {
    throw new NetplugError(
      'upgrade/not-verified',
      `Cannot verify the upgrade: ${failed.map(({ what, found }) => `${what}: ${found}`).join('; ')}`,
      { hint: 'Correct the cause and run the command again, or go back with "netplugctl upgrade rollback"' },
    );
  }
  if (proof === 'run') {
    const nodes = agentNodes(snapshot).map(({ name }) => name);
    await proveNetwork(run, { ...(await proofOf(session, { snapshot, target })), nodes });
  }
  return results;
}
