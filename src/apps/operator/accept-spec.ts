import type { ImageDigests } from '../../base/image-digests.ts';
import type { NodeState } from '../../kube/status/node-state.ts';
import type { Problem } from '../../base/problem.ts';
import { isDeepStrictEqual } from 'node:util';
import { chooseDefaultPool } from '../../install/cluster/choose-default-pool.ts';
import { OPERATOR } from '../../install/cluster/names.ts';
import { isOwned, OWNER_LABEL } from '../../install/cluster/owned-pool.ts';
import { inInstallation, installationPoolOf, problemsOfPool } from '../../install/cluster/pool-of.ts';
import { settingsOf } from '../../install/cluster/settings-of.ts';
import type { ClusterSettings } from '../../install/cluster/settings.ts';
import { type InstallationPool, type InstallationSpec, poolName } from '../../model/installation.ts';
import { markOf } from '../../model/ip-pool-status.ts';
import type { IpPool } from '../../model/ip-pool.ts';
import { poolProblems } from '../../model/pool-conflicts.ts';
import { clusterRanges } from '../../model/cluster-ranges.ts';
import { describeRange, findOverlap } from '../../model/used-range.ts';
import { parseCidr } from '../../net/cidr.ts';
import { given } from '../../base/given.ts';

const OWNED = { [OWNER_LABEL]: OPERATOR };

/** Facts that the operator knows of a cluster before it installs. */
export interface ObservedCluster {
  readonly release: string;
  readonly digests: ImageDigests;
  /** Whether the API server evaluates admission policies. */
  readonly servesAdmission: boolean;
  readonly nodes: readonly Pick<NodeState, 'name' | 'addresses' | 'podCidrs'>[];
  readonly serviceCidrs: readonly string[];
  readonly pools: readonly IpPool[];
  readonly unreadablePools: readonly UnreadablePool[];
  /** Number of servers of the fan-out, from `count-servers.ts`. */
  readonly typhaReplicas?: number | undefined;
}

export interface UnreadablePool {
  readonly name: string;
  readonly cidr: string | undefined;
  /** Reason why it cannot be used. */
  readonly problem: string;
}

export interface AcceptedSpec {
  readonly settings: ClusterSettings;
  readonly warnings: readonly string[];
}

/** Returns what follows from a valid spec in this cluster, or why it cannot be carried out. Pure. */
export function acceptSpec(
  spec: InstallationSpec,
  facts: ObservedCluster,
): AcceptedSpec | { readonly problems: readonly Problem[] } {
  const listed = listPools(spec, facts);
  if (listed === undefined) return { problems: [noFreeRange()] };
  const isListed = spec.calicoNetwork?.ipPools !== undefined;
  // Pods may still use a pool that has been disabled, or left to tunnels.
  const isRouted = !isListed && facts.pools.some((pool) => installationPoolOf(pool).encapsulation === 'None');
  const calicoNetwork = { ...(isRouted ? { bgp: 'Enabled' as const } : {}), ...spec.calicoNetwork, ipPools: listed };
  const settings = settingsIn({ ...spec, calicoNetwork }, facts);
  const problems = settings.pools.flatMap((pool, index) =>
    problemsInCluster(pool, { ...facts, at: `spec.calicoNetwork.ipPools[${String(index)}]`, beside: settings.pools }),
  );
  const isNew = hasNoPool(facts);
  if (problems.length > 0 && (isListed || isNew)) return { problems };
  const applied = settings.pools.filter((pool) => isListed || isNew || isToAdopt(pool, facts.pools));
  return {
    settings: {
      ...settings,
      pools: applied.map((pool) => ({ ...pool, metadata: { ...pool.metadata, labels: OWNED } })),
    },
    warnings: [
      ...warningsOf(settings, facts, isListed),
      ...(facts.servesAdmission || spec.admissionPolicies === 'Disabled' ? [] : [UNSERVED]),
    ],
  };
}

/** Returns the settings of a valid spec in this cluster. */
export function settingsIn(
  spec: InstallationSpec,
  {
    release,
    digests,
    nodes,
    servesAdmission,
    typhaReplicas,
  }: Pick<ObservedCluster, 'release' | 'digests' | 'nodes' | 'servesAdmission' | 'typhaReplicas'>,
): ClusterSettings {
  return settingsOf(spec, {
    release,
    digests,
    variant: 'policy-and-networking',
    datastore: { type: 'orch' },
    defaultPools: [],
    nodes: nodes.length,
    servesAdmission,
    ...given({ typhaReplicas }),
  });
}

const UNSERVED =
  'The API server serves no ValidatingAdmissionPolicies: pods may set every annotation, and the token of a node is not limited to its node';

function hasNoPool({ pools, unreadablePools }: ObservedCluster): boolean {
  return pools.length === 0 && unreadablePools.length === 0;
}

/**
 * The pools of the spec; else those that exist for pods, also disabled ones; in a cluster without any pool, a free range.
 * Undefined when no range is free.
 */
function listPools(spec: InstallationSpec, facts: ObservedCluster): readonly InstallationPool[] | undefined {
  const { ipPools } = spec.calicoNetwork ?? {};
  const isOwnIpam = spec.cni?.ipam?.type !== 'HostLocal';
  if (ipPools !== undefined)
    return isOwnIpam ? ipPools.map((pool, index) => withBlockSize(pool, poolName(ipPools, index), facts)) : ipPools;
  if (!isOwnIpam) return [];
  if (!hasNoPool(facts))
    return facts.pools.filter(({ spec: { allowedUses } }) => allowedUses.includes('Workload')).map(installationPoolOf);
  const chosen = chooseDefaultPool([
    ...facts.serviceCidrs,
    ...facts.nodes.flatMap(({ addresses, podCidrs }) => [...addresses, ...podCidrs]),
  ]);
  return chosen === undefined ? undefined : [chosen];
}

/** A pool keeps the block size that it has, unless the spec names another one. */
function withBlockSize(pool: InstallationPool, name: string, { pools }: ObservedCluster): InstallationPool {
  const twin = pools.find(({ metadata, spec }) => metadata.name === name && spec.cidr === pool.cidr);
  return pool.blockSize !== undefined || twin === undefined ? pool : { ...pool, blockSize: twin.spec.blockSize };
}

interface Place extends ObservedCluster {
  /** Path of the pool in the installation. */
  readonly at: string;
  readonly beside: readonly IpPool[];
}

function problemsInCluster(pool: IpPool, place: Place): readonly Problem[] {
  const { at, pools, unreadablePools, beside, nodes, serviceCidrs } = place;
  const { name } = pool.metadata;
  const unreadable = unreadablePools.find((each) => each.name === name && each.cidr !== pool.spec.cidr);
  if (unreadable !== undefined) return [unreadableProblem(unreadable, at)];
  const existing = pools.find(({ metadata }) => metadata.name === name);
  const listed = new Set(beside.map(({ metadata }) => metadata.name));
  const conflicts = poolProblems(
    pool,
    pools.filter(({ metadata }) => !listed.has(metadata.name)),
    existing,
  );
  const found = [...problemsOfPool(pool, at), ...conflicts.map((problem) => inInstallation(problem, at))];
  if (existing !== undefined) return [...found, ...(found.length === 0 ? foreignProblems(pool, existing, at) : [])];
  const used = findOverlap(parseCidr(pool.spec.cidr), clusterRanges({ nodes, serviceCidrs }));
  if (used === undefined) return found;
  const message = `${pool.spec.cidr} overlaps ${describeRange(used)}`;
  return [...found, { path: `${at}.cidr`, message, hint: 'choose another range', code: 'resource/invalid' }];
}

/** A pool that the operator does not own is not edited. */
function foreignProblems(pool: IpPool, existing: IpPool, at: string): readonly Problem[] {
  const fields = changedFields(pool, existing);
  if (isOwned(existing) || fields.length === 0) return [];
  const { name } = pool.metadata;
  return [
    {
      path: at,
      message: `differs from pool "${name}", which the operator does not own, in ${fields.join(', ')}`,
      hint: `write what the pool has, or hand it over: kubectl label ippool ${name} ${OWNER_LABEL}=${OPERATOR}`,
      code: 'resource/invalid',
    },
  ];
}

function changedFields(pool: IpPool, existing: IpPool): readonly string[] {
  return Object.entries(pool.spec)
    .filter(([field, value]) => !isDeepStrictEqual(value, Object.getOwnPropertyDescriptor(existing.spec, field)?.value))
    .map(([field]) => field);
}

/**
 * Reports whether a pool that the spec does not list is from a manifest, and stays as it is when applied. Once it is the
 * operator's, it is not applied again: what was read could be older than what an administrator has written since.
 */
function isToAdopt(pool: IpPool, pools: readonly IpPool[]): boolean {
  const existing = pools.find(({ metadata }) => metadata.name === pool.metadata.name);
  if (existing === undefined || isOwned(existing) || changedFields(pool, existing).length > 0) return false;
  return poolName([{ cidr: existing.spec.cidr }], 0) === pool.metadata.name;
}

function warningsOf(
  settings: ClusterSettings,
  { pools, nodes }: ObservedCluster,
  isListed: boolean,
): readonly string[] {
  const listed = new Set(settings.pools.map(({ metadata }) => metadata.name));
  const isHostLocal = settings.spec.cni.ipam.type === 'HostLocal';
  const usesAll = !isListed && !isHostLocal;
  const left = pools.filter((pool) => !usesAll && isOwned(pool) && !listed.has(pool.metadata.name));
  const without = isHostLocal ? nodes.filter(({ podCidrs }) => podCidrs.length === 0) : [];
  return [
    ...left.map(
      ({ metadata }) =>
        `IPPool "${metadata.name}" is no longer listed and stays: disable it, and delete it when no pod uses it`,
    ),
    ...pools.flatMap(({ metadata, spec, status }) => {
      const mark = markOf(status);
      return mark === undefined || spec.disabled
        ? []
        : [`IPPool "${metadata.name}" assigns no addresses: ${mark.message}`];
    }),
    ...(without[0] === undefined
      ? []
      : [
          `${String(without.length)} of ${String(nodes.length)} nodes have no pod CIDR, such as "${without[0].name}": start kube-controller-manager with --allocate-node-cidrs`,
        ]),
  ];
}

/** Pods may have addresses of its range. */
function unreadableProblem({ name, cidr, problem }: UnreadablePool, at: string): Problem {
  return {
    path: at,
    message: `would replace pool "${name}", which cannot be used (${problem}), and its range ${cidr ?? 'of unknown size'}`,
    hint: `correct IPPool "${name}", or list its range`,
    code: 'resource/invalid',
  };
}

function noFreeRange(): Problem {
  return {
    path: 'spec.calicoNetwork.ipPools',
    message: 'missing, and every common range overlaps addresses of nodes, pods or services',
    hint: 'list a pool with a free range',
    code: 'resource/invalid',
  };
}
