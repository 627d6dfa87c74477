import { POLICY_BINDING_KIND, POLICY_KIND } from '../../../kube/admission-policies.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { AGENT_SET, OPERATOR } from '../../../install/cluster/names.ts';
import { TYPHA } from '../../../model/typha.ts';
import { objectName, type ObjectReference, referenceOf } from '../../../kube/objects/reference.ts';
import type { ClusterInformation } from '../../../model/cluster-information.ts';
import type { HostEndpoint } from '../../../model/host-endpoint.ts';
import { HOLD_AGENTS } from '../../../model/installation.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import { actStages } from '../../../plans/acts.ts';
import type { Plan } from '../../../plans/plan.ts';
import { isOnDelete } from '../../../upgrade/cluster/held-agents.ts';
import { metadataIn, recordIn } from '../../../upgrade/cluster/objects-in.ts';
import { usesFanOut } from '../../../upgrade/cluster/uses-fan-out.ts';
import type { PodState } from '../../../kube/status/pod-state.ts';
import type { Backup } from './backup.ts';
import { UPGRADE_NAMES } from './read-records.ts';
import { doomedFilters, type RollbackMesh, rollbackMeshNotes } from './rollback-mesh.ts';
import { isAsBackedUp, releaseLag, type RollbackAct, ROLLBACK_ACTS, type RollbackPorts } from './rollback-acts.ts';

/** Kinds in the order in which they are put back: what pods use before the pods. Pools and the like are records. */
const ORDER = [
  'Namespace',
  'ServiceAccount',
  'ClusterRole',
  'ClusterRoleBinding',
  'Role',
  'RoleBinding',
  'PriorityLevelConfiguration',
  'FlowSchema',
  POLICY_KIND,
  POLICY_BINDING_KIND,
  'Secret',
  'ConfigMap',
  'APIServer',
  'Installation',
  'PodDisruptionBudget',
  'Deployment',
  'DaemonSet',
];

/** Facts that a rollback compares with the backup. */
export interface RollbackFacts {
  readonly objects: readonly Manifest[];
  readonly pods: readonly PodState[];
  /** Secrets with the records of helm. */
  readonly charts: readonly Manifest[];
  readonly hostEndpoints: readonly HostEndpoint[];
  /** Whether the temporary policy of the upgrade exists. */
  readonly hasPolicy: boolean;
  readonly cluster: ClusterInformation | undefined;
  /** Or why it could not be read. */
  readonly mesh: RollbackMesh | { readonly unread: string };
  /** Folder of the backup. */
  readonly folder: string;
}

/** Returns the objects of the backup in the order in which they are put back, without what held agents. */
export function objectsToPutBack({ objects }: Backup): readonly Manifest[] {
  return objects.map(withoutHold).sort((a, b) => rank(a) - rank(b));
}

/** Plans what makes the cluster as it was backed up. Empty when it is. Pure. */
export function planRollback(backup: Backup, facts: RollbackFacts): Plan<RollbackAct> {
  const { mesh, folder } = facts;
  const { from, to, at, applied } = backup.header;
  const now = new Map(facts.objects.map((object) => [objectName(object), object]));
  const wanted = objectsToPutBack(backup);
  const restored = wanted.filter((object) => !isAsBackedUp(now.get(objectName(object)), object));
  // An earlier rollback may have put the object back, and not have waited to the end.
  const followers = wanted.filter(
    (object) =>
      isWorkload(object) &&
      (restored.includes(object) || releaseLag(now.get(objectName(object)), object, facts.pods) !== undefined),
  );
  const byHand = followers.filter((object) => metadataIn(object).name === AGENT_SET && isOnDelete(object));
  const put = (object: Manifest): RollbackAct => ({ act: 'put-back', object: referenceOf(object) });
  const wait = (object: Manifest): RollbackAct => ({ act: 'await-release', object: referenceOf(object) });
  const replace = (object: Manifest): RollbackAct => ({ act: 'replace-agents', object: referenceOf(object) });
  const remove = (object: Manifest): RollbackAct => ({
    act: 'delete',
    objects: [referenceOf(object)],
    why: 'which the upgrade has created',
  });
  const isEarly = (object: Manifest): boolean => rank(object) < ORDER.indexOf('APIServer');
  // A server serves agents of the release before and after its own: one that agents use is put back after them.
  const areServersLast = usesFanOut(facts.objects);
  const isServers = (object: Manifest): boolean => object['kind'] === 'Deployment' && metadataIn(object).name === TYPHA;
  const servers = [...restored.filter(isServers).map(put), ...followers.filter(isServers).map(wait)];
  const isOther = (object: Manifest): boolean => !isServers(object) && !byHand.includes(object);
  const before = new Set(backup.objects.map(objectName));
  const added = facts.objects
    .filter((object) => !before.has(objectName(object)) && applied.includes(objectName(object)))
    .sort((a, b) => rank(b) - rank(a));
  return {
    stages: actStages<RollbackAct, RollbackPorts>(ROLLBACK_ACTS, [
      ['Put back what pods use, and the operator', restored.filter(isEarly).map(put)],
      // As long as the newer operator works, it would undo what follows, and roll its agents out once nothing holds them.
      ['Wait for the operator', followers.filter(isOperator).map(wait)],
      ['Put back the servers of the fan-out', areServersLast ? [] : servers],
      ['Put back the workloads', restored.filter((object) => !isEarly(object) && isOther(object)).map(put)],
      ['Wait for the workloads', followers.filter((object) => !isOperator(object) && isOther(object)).map(wait)],
      ['Replace the agents', byHand.map(replace)],
      // Newer agents hold ports open for rules with http, also shortly after proxies have stopped asking: earlier ones open none.
      ['Mesh', 'unread' in mesh ? [] : meshActs(doomedFilters(backup, mesh))],
      ['Put back the servers of the fan-out', areServersLast ? servers : []],
      ['Delete what the release does not have', added.map(remove)],
      ['Restore the records of helm', chartActs(backup, facts, { put, remove })],
      ['Restore the records of the datastore', recordActs(backup, facts)],
    ]),
    notes: [
      `back from ${to} to ${from}, as backed up at ${at}`,
      ...('unread' in mesh ? [unreadNote(mesh.unread)] : rollbackMeshNotes(backup, mesh, folder)),
    ],
  };
}

/** Where no agent serves sidecars, each request about which a proxy asks would fail. */
function meshActs(filters: readonly ObjectReference[]): readonly RollbackAct[] {
  return filters.length === 0 ? [] : [{ act: 'delete', objects: filters, why: 'so that no proxy asks netplug' }];
}

function unreadNote(why: string): string {
  return `not known: what a mesh has of netplug-sidecar could not be read (${why}). Sidecars newer than the agents may allow nothing to rules with http. After you have gone back to a release without it, look with "kubectl get envoyfilters -A", and delete the filter "netplug"`;
}

/** Restores the records of helm that the upgrade has deleted, and deletes those that it has created. */
function chartActs(
  { charts }: Backup,
  { charts: present }: RollbackFacts,
  { put, remove }: Readonly<Record<'put' | 'remove', (object: Manifest) => RollbackAct>>,
): readonly RollbackAct[] {
  if (charts.length === 0) return [];
  const [before, now] = [new Set(charts.map(objectName)), new Set(present.map(objectName))];
  return [
    ...charts.filter((secret) => !now.has(objectName(secret))).map(put),
    ...present.filter((secret) => !before.has(objectName(secret))).map(remove),
  ];
}

/** Restores the records that an upgrade changes: marked host endpoints, the temporary policy, and the version of the cluster. */
function recordActs(
  { records: { resources, cluster: before } }: Backup,
  { hostEndpoints, hasPolicy, cluster }: RollbackFacts,
): readonly RollbackAct[] {
  const labels = resources.filter(isHostEndpoint).flatMap(({ metadata: { name, labels: was } }): RollbackAct[] => {
    const is = hostEndpoints.find(({ metadata }) => metadata.name === name)?.metadata.labels?.[UPGRADE_NAMES.label];
    const value = was?.[UPGRADE_NAMES.label];
    return is === value ? [] : [{ act: 'restore-label', endpoint: name, ...(value === undefined ? {} : { value }) }];
  });
  const { policy } = UPGRADE_NAMES;
  const hadPolicy = resources.some(({ kind, metadata }) => kind === 'GlobalNetworkPolicy' && metadata.name === policy);
  const { netplugVersion: version } = before.spec;
  const isOther = cluster !== undefined && version !== undefined && cluster.spec.netplugVersion !== version;
  return [
    ...labels,
    ...(hasPolicy && !hadPolicy ? [{ act: 'delete-policy', policy } as const] : []),
    ...(isOther ? [{ act: 'restore-version', version } as const] : []),
  ];
}

export function isHostEndpoint(resource: AnyResource): resource is HostEndpoint {
  return resource.kind === 'HostEndpoint';
}

export function isWorkload({ kind }: Manifest): boolean {
  return kind === 'DaemonSet' || kind === 'Deployment';
}

function isOperator(object: Manifest): boolean {
  return object['kind'] === 'Deployment' && metadataIn(object).name === OPERATOR;
}

/** The operator first: the newer one would undo everything else. */
function rank(object: Manifest): number {
  if (isOperator(object)) return ORDER.indexOf('APIServer') - 0.5;
  return metadataIn(object).name === AGENT_SET ? ORDER.length : ORDER.indexOf(String(object['kind']));
}

/** A hold on the agents that a stopped upgrade has left would keep those of the backup from coming back. */
function withoutHold(object: Manifest): Manifest {
  const { [HOLD_AGENTS]: hold, ...annotations } = metadataIn(object).annotations;
  return hold === undefined ? object : { ...object, metadata: { ...recordIn(object, 'metadata'), annotations } };
}
