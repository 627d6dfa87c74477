import { probeObjects } from '../../../install/cluster/probe-objects.ts';
import { VERSION } from '../../../base/version.ts';
import type { Manifest } from '../../../model/manifest.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { SERVICES } from '../../../kube/paths.ts';
import { detectInstallation } from '../../../upgrade/cluster/detect-installation.ts';
import { type ClusterSnapshot, SNAPSHOT_FORMAT, type UpgradeMethod } from '../../../upgrade/cluster/snapshot.ts';
import type { UpgradeTarget } from '../../../upgrade/cluster/target.ts';
import type { Datastore } from '../../../config/connection.ts';
import type { Store } from '../../../datastore/store.ts';
import { readServiceRanges } from '../../../kube/service-ranges.ts';
import { openAttempts } from '../cluster/attempts.ts';
import { findMissingRights, rightsForObjects } from '../cluster/missing-rights.ts';
import { readClusterFacts } from '../cluster/read-cluster-facts.ts';
import type { Context } from '../ports.ts';
import { readChartRecords } from './read-charts.ts';
import { readMesh } from './read-mesh.ts';
import { readPods } from './read-nodes.ts';
import { readInstalledObjects, snapshotOf } from './read-objects.ts';
import { readRecordFacts } from './read-records.ts';
import { dryRunApply } from './dry-run-apply.ts';

export interface SnapshotSources {
  readonly context: Context;
  readonly api: OrchApi;
  readonly store: Store;
  readonly datastore: Datastore;
  /** The cluster as a phrase. */
  readonly cluster: string;
}

const WRITE_VERBS = ['get', 'create', 'patch', 'update'];
const FURTHER_RIGHTS = [
  { verb: 'list', group: '', resource: 'pods', namespace: 'netplug-system' },
  { verb: 'list', group: '', resource: 'secrets' },
  { verb: 'list', group: 'coordination.k8s.io', resource: 'leases', namespace: 'kube-node-lease' },
  { verb: 'list', group: '', resource: 'services', namespace: 'kube-system' },
  { verb: 'list', group: 'networking.k8s.io', resource: 'servicecidrs' },
  { verb: 'list', group: 'discovery.k8s.io', resource: 'endpointslices', namespace: 'kube-system' },
] as const;

/** Reads the cluster. The target depends on what is installed; a dry run applies it. @throws store/*, upgrade/not-installed */
export async function readSnapshot(
  { context, api, store, datastore, cluster: phrase }: SnapshotSources,
  targetOf: (snapshot: ClusterSnapshot) => UpgradeTarget,
  method?: UpgradeMethod,
): Promise<ClusterSnapshot> {
  const { signal, ports } = context;
  const attempts = openAttempts(signal);
  const served = await api.servedKinds(signal);
  const objects = (await readInstalledObjects(api, served, signal)).map(snapshotOf);
  const noCharts = { releases: [], secrets: [], unread: [] };
  const charts = await attempts.read('chart records', noCharts, async () => readChartRecords(api, signal));
  const state = await readRecordFacts(context, { store, datastore, served, attempts });
  const { nodes, ...cluster } = await readClusterFacts(api, { rights: [], attempts }, signal);
  const first: ClusterSnapshot = {
    format: SNAPSHOT_FORMAT,
    cluster: phrase,
    at: new Date(ports.clock.now()).toISOString(),
    tool: VERSION,
    ...(method === undefined ? {} : { method }),
    ...cluster,
    objects,
    served,
    charts: charts.releases,
    nodes: nodes.filter(({ os }) => os === 'linux'),
    pods: await attempts.read('pods', [], async () => readPods(api, signal)),
    ...(await attempts.read('sidecars', { mesh: undefined, sidecars: [] }, async () => readMesh(api, signal))),
    datastore: state,
    dryRuns: [],
    services: await attempts.read(
      'services',
      0,
      async () => (await api.list(SERVICES, { only: 'names' }, signal)).length,
    ),
    serviceCidrs: await attempts.read('service ranges', [], async () => readServiceRanges(api, signal)),
    unread: [],
  };
  const applied = appliedObjects(first, targetOf(first));
  const kinds = new Set(served);
  const dryRuns = await attempts.read('dry run of the target', [], async () =>
    Promise.all(applied.map(async (object) => dryRunApply(api, { object, served: kinds }, signal))),
  );
  const probes = probeObjects({ release: VERSION, image: '', pullSecrets: [] });
  const rights = [
    ...rightsForObjects(applied, WRITE_VERBS),
    ...rightsForObjects(probes, [...WRITE_VERBS, 'delete']),
    ...FURTHER_RIGHTS,
  ];
  const missingRights = await attempts.read('rights', [], async () => findMissingRights(api, rights, signal));
  return {
    ...first,
    dryRuns: dryRuns.filter((each) => each !== undefined),
    missingRights,
    unread: [...attempts.unread, ...charts.unread],
  };
}

/** Returns the objects that the method of the installation applies itself. */
export function appliedObjects(snapshot: ClusterSnapshot, target: UpgradeTarget): readonly Manifest[] {
  const { method } = detectInstallation(snapshot);
  if (method === 'manifest') return target.stages.flatMap(({ objects }) => objects);
  const definitions = target.stages.flatMap(({ stage, objects }) => (stage === 'definitions' ? objects : []));
  return method === 'operator' ? [...definitions, ...target.operator] : definitions;
}
