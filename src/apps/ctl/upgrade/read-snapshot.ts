import { probeObjects } from '../../../install/cluster/probe-objects.ts';
import { reasonOf } from '../../../base/errors.ts';
import { VERSION } from '../../../base/version.ts';
import type { Manifest } from '../../../model/manifest.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { detectInstallation } from '../../../upgrade/cluster/detect-installation.ts';
import { type ClusterSnapshot, SNAPSHOT_FORMAT, type UpgradeMethod } from '../../../upgrade/cluster/snapshot.ts';
import type { UpgradeTarget } from '../../../upgrade/cluster/target.ts';
import type { Datastore } from '../../../config/connection.ts';
import type { Store } from '../../../datastore/store.ts';
import { findMissingRights, rightsForObjects } from '../cluster/read-preflight-facts.ts';
import type { Context } from '../ports.ts';
import { readChartRecords } from './read-charts.ts';
import { readMesh, readNodes, readPods } from './read-nodes.ts';
import { readInstalledObjects, snapshotOf } from './read-objects.ts';
import { readRecordFacts } from './read-records.ts';
import { readWebhooks } from './read-webhooks.ts';
import { dryRunApply } from './dry-run-apply.ts';

export interface SnapshotSources {
  readonly context: Context;
  readonly api: OrchApi;
  readonly store: Store;
  readonly datastore: Datastore;
}

const SERVICES = { group: '', version: 'v1', plural: 'services' } as const;
const WRITE_VERBS = ['get', 'create', 'patch', 'update'];
const FURTHER_RIGHTS = [
  { verb: 'list', group: '', resource: 'pods', namespace: 'netplug-system' },
  { verb: 'list', group: '', resource: 'secrets' },
  { verb: 'list', group: '', resource: 'services', namespace: 'kube-system' },
  { verb: 'list', group: 'discovery.k8s.io', resource: 'endpointslices', namespace: 'kube-system' },
] as const;

/** Reads the cluster. The target depends on what is installed; a dry run applies it. @throws store/*, upgrade/not-installed */
export async function readSnapshot(
  { context, api, store, datastore }: SnapshotSources,
  targetOf: (snapshot: ClusterSnapshot) => UpgradeTarget,
  method?: UpgradeMethod,
): Promise<ClusterSnapshot> {
  const { signal, ports } = context;
  const unread: string[] = [];
  const attempt = async <T>(what: string, fallback: T, read: () => Promise<T>): Promise<T> => {
    try {
      return await read();
    } catch (cause) {
      signal.throwIfAborted();
      unread.push(`${what}: ${reasonOf(cause)}`);
      return fallback;
    }
  };
  const kubernetes = await api.serverVersion(signal);
  const served = await api.servedKinds(signal);
  const objects = (await readInstalledObjects(api, served, signal)).map(snapshotOf);
  const noCharts = { releases: [], secrets: [], unread: [] };
  const charts = await attempt('chart records', noCharts, async () => readChartRecords(api, signal));
  const records = await readRecordFacts(context, { store, datastore, served });
  const first: ClusterSnapshot = {
    format: SNAPSHOT_FORMAT,
    at: new Date(ports.clock.now()).toISOString(),
    tool: VERSION,
    ...(method === undefined ? {} : { method }),
    kubernetes,
    objects,
    served,
    charts: charts.releases,
    nodes: await attempt('nodes', [], async () => readNodes(api, signal)),
    pods: await attempt('pods', [], async () => readPods(api, signal)),
    ...(await attempt('sidecars', { mesh: undefined, sidecars: [] }, async () => readMesh(api, signal))),
    datastore: records.state,
    dryRuns: [],
    missingRights: [],
    services: await attempt('services', 0, async () => (await api.list(SERVICES, { only: 'names' }, signal)).length),
    webhooks: await attempt('webhooks', [], async () => readWebhooks(api, signal)),
    unread: [],
  };
  const applied = appliedObjects(first, targetOf(first));
  const kinds = new Set(served);
  const dryRuns = await attempt('dry run of the target', [], async () =>
    Promise.all(applied.map(async (object) => dryRunApply(api, { object, served: kinds }, signal))),
  );
  const probes = probeObjects({ release: VERSION, image: '', pullSecrets: [] });
  const rights = [
    ...rightsForObjects(applied, WRITE_VERBS),
    ...rightsForObjects(probes, [...WRITE_VERBS, 'delete']),
    ...FURTHER_RIGHTS,
  ];
  const missingRights = await attempt('rights', [], async () => findMissingRights(api, rights, signal));
  return {
    ...first,
    dryRuns: dryRuns.filter((each) => each !== undefined),
    missingRights,
    unread: [...unread, ...records.unread, ...charts.unread],
  };
}

/** Returns the objects that the method of the installation applies itself. */
export function appliedObjects(snapshot: ClusterSnapshot, target: UpgradeTarget): readonly Manifest[] {
  const { method } = detectInstallation(snapshot);
  if (method === 'manifest') return target.stages.flatMap(({ objects }) => objects);
  const definitions = target.stages.flatMap(({ stage, objects }) => (stage === 'definitions' ? objects : []));
  return method === 'operator' ? [...definitions, ...target.operator] : definitions;
}
