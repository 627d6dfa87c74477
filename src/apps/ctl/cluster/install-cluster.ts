import { counted } from '../../../base/counted.ts';
import { crdManifests } from '../../../install/cluster/definitions/crd-manifests.ts';
import type { Finding } from '../../../checks/check.ts';
import { NetplugError } from '../../../base/errors.ts';
import { VERSION } from '../../../base/version.ts';
import type { PreflightFacts, WantedPool } from '../../../install/cluster/checks/preflight-facts.ts';
import { preflight } from '../../../install/cluster/checks/preflight.ts';
import { chooseDefaultPool } from '../../../install/cluster/choose-default-pool.ts';
import { TYPHA_REPLICAS } from '../../../install/cluster/fields.ts';
import { idleFields } from '../../../install/cluster/idle-fields.ts';
import { operatorObjects } from '../../../install/cluster/operator-deployment.ts';
import { certificatesSecret } from '../../../install/cluster/release-manifests.ts';
import { settingsOf } from '../../../install/cluster/settings-of.ts';
import { installationObject } from './cluster-plan.ts';
import { type InstallationPool, type InstallationSpec, poolName } from '../../../model/installation.ts';
import type { IpPool } from '../../../model/ip-pool.ts';
import { orchClusterUid } from '../../../kube/cluster-uid.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { renderPlan } from '../../../plans/plan.ts';
import type { Context, Status } from '../ports.ts';
import { editLine, type ManifestEdit } from '../../../install/cluster/edits/edit.ts';
import { changesOfApply, findObject } from '../../../kube/objects/apply.ts';
import { collectionHolding, referenceKey, referenceOf } from '../../../kube/objects/reference.ts';
import { renderFindings } from '../render-findings.ts';
import { podRun } from './node-pods.ts';
import { type ClusterConnection, readClusterConnection } from './cluster-access.ts';
import { type ClusterTarget, clusterPlan, targetStages } from './cluster-plan.ts';
import { describeCluster, readClusterIdentity } from './cluster-identity.ts';
import { confirm } from './confirm.ts';
import { carryOutActs } from './cluster-acts.ts';
import { type ClusterInstallOptions, refuseCombination } from './install-options.ts';
import { probeObjects } from '../../../install/cluster/probe-objects.ts';
import { type NeededRight, rightsForObjects } from './missing-rights.ts';
import { readPreflightFacts } from './read-preflight-facts.ts';
import { openHelm } from './helm.ts';
import { keptFamilies, withChanges } from './keep-settings.ts';
import { missingPools } from './create-pools.ts';
import { withFlags } from './read-installation.ts';
import { refuseFanOut } from './refuse-fan-out.ts';
import { refuseOtherRecords } from './refuse-other-records.ts';
import { readStandingSettings } from './standing-settings.ts';

/** Number of changes shown of one object. */
const SHOWN_CHANGES = 10;
const WRITE_VERBS = ['get', 'create', 'patch'];
const READ_RIGHTS: readonly NeededRight[] = [
  { verb: 'list', group: '', resource: 'nodes' },
  { verb: 'list', group: '', resource: 'pods' },
  { verb: 'list', group: '', resource: 'events' },
  { verb: 'list', group: 'apps', resource: 'daemonsets' },
  { verb: 'list', group: 'coordination.k8s.io', resource: 'leases', namespace: 'kube-node-lease' },
  { verb: 'list', group: 'networking.k8s.io', resource: 'servicecidrs' },
  { verb: 'list', group: 'admissionregistration.k8s.io', resource: 'mutatingwebhookconfigurations' },
  { verb: 'list', group: 'admissionregistration.k8s.io', resource: 'validatingwebhookconfigurations' },
];

/** Installs netplug in the cluster: checks, shows the plan, carries it out, and proves the network. */
export async function installCluster(context: Context, options: ClusterInstallOptions): Promise<Status> {
  const { io, ports, signal } = context;
  const { method, variant, proof, mode, interfacePrefix } = options;
  // Before the cluster is asked.
  const given = withFlags(options.spec ?? {}, options);
  const connection = await readClusterConnection(context, options.datastore);
  refuseCombination(options, connection.datastore.type);
  refuseFanOut(given, connection.datastore.type);
  await using api = ports.openApi(connection.api);
  const helm = method === 'chart' ? await openHelm(context, connection.api) : undefined;
  const rights = [...READ_RIGHTS, ...neededRights(options, connection.datastore)];
  const facts = await readPreflightFacts(api, { rights, certificateFaults: connection.certificateFaults }, signal);
  const standing = await readStandingSettings(api, { method, facts }, signal);
  const keeps = options.spec === undefined && standing !== undefined;
  const spec = keeps
    ? withChanges(standing.spec, options, facts)
    : withPools(given, options, { facts, datastore: connection.datastore.type });
  const keepsPools = keeps && standing.runs !== undefined && options.pools === undefined;
  const made = settingsOf(spec, {
    release: VERSION,
    variant,
    datastore: connection.datastore,
    defaultPools: [],
    nodes: facts.nodes.length,
    servesAdmission: facts.servesAdmission,
    // Each server needs a node of its own.
    typhaReplicas: Math.max(1, Math.min(spec.typha?.replicas ?? TYPHA_REPLICAS, facts.nodes.length)),
    ...(interfacePrefix === undefined ? {} : { interfacePrefix }),
  });
  const isWritten = options.spec !== undefined || (keeps && options.pools === undefined);
  // The objects of a manifest tell the families of its pools alone.
  const settings = {
    ...made,
    ...(keepsPools ? { pools: [] } : {}),
    ...(keeps && method === 'manifest' ? { families: keptFamilies(standing.spec, made.families) } : {}),
  };
  const wanted = {
    method,
    variant,
    datastore: connection.datastore,
    usesPodCidrs: settings.spec.cni.ipam.type === 'HostLocal',
    admissionPolicies: spec.admissionPolicies ?? 'Enabled',
    pools: keepsPools ? [] : rangesOf(spec, isWritten ? 'file' : 'flags'),
    release: VERSION,
  };
  for (const { path, reason } of idleFields(options.spec ?? {}, options))
    io.stderr(`warning: ${path}: it has no effect with ${reason}.\n`);
  refuseFindings(context, preflight({ ...facts, wanted: { ...wanted, runs: standing?.runs } }));
  await refuseOtherEtcd(api, { connection, pools: settings.pools }, context);
  const target: ClusterTarget = {
    method,
    settings,
    spec,
    certificates: connection.certificates,
    proof,
    keepsPools: options.pools === undefined && options.spec?.calicoNetwork?.ipPools === undefined,
  };
  const nodes = facts.nodes.filter(({ os }) => os === 'linux').map(({ name }) => name);
  const changes = await compareObjects(api, target, { facts, signal });
  const notes = [
    `${method}, ${variant}, records in ${connection.datastore.type === 'orch' ? 'the API of Kubernetes' : connection.datastore.endpoints}`,
    `${String(nodes.length)} nodes, Kubernetes ${facts.kubernetes}, images of ${spec.registry ?? 'netplug.io'}`,
    ...wanted.pools.map(({ cidr }) => `pool ${cidr}`),
    ...(helm === undefined ? [] : [`helm ${helm.version}`]),
    ...(keeps ? ['what the command does not set stays as it is; --spec sets everything'] : []),
    ...[...changes.values()].flatMap((each) => shortened(each.map(editLine))),
  ];
  const plan = clusterPlan(target, { changes, notes, nodes, hasAgent: facts.installedBy !== undefined });
  for (const note of plan.notes) io.stderr(`${note}\n`);
  const cluster = describeCluster(await readClusterIdentity(api, signal));
  io.stdout(`cluster: ${cluster}\n${renderPlan(plan)}`);
  if (mode === 'dry-run') return 0;
  if (mode === 'ask' && !(await confirm(context, `Install netplug in the cluster with ${cluster}?`))) return 1;
  await carryOutActs(plan, { run: podRun(api, context), context, helm, kv: connection.kv });
  io.stdout(`netplug ${VERSION} is installed on ${String(nodes.length)} nodes\n`);
  return 0;
}

/** Chooses pools where the user has named none and the operator would not. */
function withPools(
  given: InstallationSpec,
  { method, variant, spec: written }: ClusterInstallOptions,
  { facts, datastore }: { readonly facts: PreflightFacts; readonly datastore: 'orch' | 'kvv3' },
): InstallationSpec {
  const { calicoNetwork, cni } = given;
  const isOpen = calicoNetwork?.ipPools === undefined && cni?.ipam?.type !== 'HostLocal';
  if (!isOpen || variant !== 'policy-and-networking') return given;
  const having = (ipPools: readonly InstallationPool[]): InstallationSpec => ({
    ...given,
    calicoNetwork: { ...calicoNetwork, ipPools },
  });
  const existing = facts.pools.map(({ name, cidr }): InstallationPool => ({ name, cidr }));
  // An installation that is repeated keeps its pools. The operator does so by itself, with all of their fields.
  if (datastore === 'orch' && existing.length > 0)
    return written !== undefined && method !== 'manifest' ? given : having(existing);
  const pool = chooseDefaultPool([
    ...facts.serviceCidrs,
    ...facts.nodes.flatMap(({ addresses, podCidrs }) => [...addresses, ...podCidrs]),
  ]);
  if (pool !== undefined || facts.nodes.length === 0) return having(pool === undefined ? [] : [pool]);
  throw new NetplugError(
    'install/refused',
    'Cannot choose a pool: every common range overlaps nodes, pods or services',
    {
      hint: 'Name a free range with --pool',
    },
  );
}

function shortened(changes: readonly string[]): readonly string[] {
  const left = changes.length - SHOWN_CHANGES;
  return [
    ...changes.slice(0, SHOWN_CHANGES),
    ...(left > 0 ? [`and ${String(left)} more changes of the same object`] : []),
  ];
}

function rangesOf({ calicoNetwork }: InstallationSpec, from: 'flags' | 'file'): readonly WantedPool[] {
  const pools = calicoNetwork?.ipPools ?? [];
  return pools.map(({ cidr }, index) => ({
    name: poolName(pools, index),
    cidr,
    field: from === 'flags' ? `--pool ${cidr}` : `spec.calicoNetwork.ipPools[${String(index)}].cidr`,
  }));
}

/** Everything is written by server-side apply, and probes are deleted again. */
function neededRights(
  { method, variant, spec: { typha } = {} }: ClusterInstallOptions,
  datastore: ClusterTarget['settings']['datastore'],
): readonly NeededRight[] {
  const settings = settingsOf(typha === undefined ? {} : { typha }, {
    release: VERSION,
    variant,
    datastore,
    defaultPools: [{ cidr: '192.168.0.0/16' }],
    nodes: 2,
  });
  const target: ClusterTarget = {
    method,
    settings,
    spec: {},
    certificates: datastore.type === 'kvv3' && datastore.tls === 'secret' ? {} : undefined,
    proof: 'run',
    keepsPools: false,
  };
  const objects = targetStages(target).flatMap((stage) => stage.objects);
  const probes = probeObjects({ release: VERSION, image: '', pullSecrets: [] });
  const images = { ...settings.images, pullSecrets: [] };
  const operator = operatorObjects({ release: VERSION, images, replicas: 1, override: {} });
  const more = method === 'chart' ? [...operator, certificatesSecret({}, VERSION), installationObject({})] : [];
  return [
    ...rightsForObjects([...objects, ...more], WRITE_VERBS),
    ...rightsForObjects(probes, [...WRITE_VERBS, 'delete']),
  ];
}

/** Nothing else connects to etcd before agents are changed, unless pools are created. */
async function refuseOtherEtcd(
  api: OrchApi,
  { connection: { kv }, pools }: { readonly connection: ClusterConnection; readonly pools: readonly IpPool[] },
  { ports, signal }: Context,
): Promise<void> {
  if (kv === undefined) return;
  await using store = ports.openStore(kv);
  await refuseOtherRecords(store, { uid: await orchClusterUid(api, signal), task: 'install' }, signal);
  await missingPools(store, pools, signal);
}

function refuseFindings({ io }: Context, findings: readonly Finding[]): void {
  io.stderr(renderFindings(findings));
  const errors = findings.filter(({ severity }) => severity === 'error');
  const [first] = errors;
  if (first === undefined) return;
  throw new NetplugError(
    'install/refused',
    `Cannot install netplug: ${counted(errors.length, 'check')} of the cluster failed; nothing was changed`,
    {
      hint: errors.length === 1 ? first.remedy : 'Correct what is listed above, and run the command again',
      facts: { checks: errors.map(({ id }) => id) },
    },
  );
}

/** Returns what would change in each object that exists, by its key. */
async function compareObjects(
  api: OrchApi,
  target: ClusterTarget,
  { facts, signal }: { readonly facts: PreflightFacts; readonly signal: AbortSignal },
): Promise<ReadonlyMap<string, readonly ManifestEdit[]>> {
  const served = new Set(facts.definitions.map(({ name }) => name));
  const own = new Set(crdManifests().map((definition) => referenceOf(definition).name));
  const changes = new Map<string, readonly ManifestEdit[]>();
  for (const object of targetStages(target).flatMap((stage) => stage.objects)) {
    const which = referenceOf(object);
    const { plural, group } = collectionHolding(which);
    const definition = `${plural}.${group}`;
    const isServed = !own.has(definition) || served.has(definition);
    const live = isServed ? await findObject(api, which, signal) : undefined;
    if (live === undefined) continue;
    // Pools that exist belong to the user, unless the command line names others.
    const isKept = target.keepsPools && which.kind === 'IPPool';
    const key = referenceKey(which);
    const found = isKept ? [] : await changesOfApply(api, { object, live }, signal);
    changes.set(
      key,
      found.map((each) => ({ object: key, ...each })),
    );
  }
  return changes;
}
