import { problemLine } from '../../base/problem.ts';
import type { Log } from '../../base/log.ts';
import { bgpSettingsOf } from '../../bgp/bgp-settings.ts';
import type { Bird } from '../../bgp/bird.ts';
import { bgpPoolCidrs, planAnnouncements } from '../../bgp/plan-announcements.ts';
import { planSessions } from '../../bgp/plan-sessions.ts';
import { type ReadSecret, readPasswords } from '../../bgp/read-passwords.ts';
import { renderBird } from '../../bgp/render-bird.ts';
import { routerIdOf } from '../../bgp/router-id.ts';
import { HOST_LINK_PREFIX } from '../../dataplane/kernel.ts';
import type { IpPool } from '../../model/ip-pool.ts';
import type { NodeName } from '../../model/names.ts';
import type { Address, Family } from '../../net/address.ts';
import { type Cidr, cidrContains, hostCidr } from '../../net/cidr.ts';
import type { ClusterState } from '../../routing/cluster-state.ts';
import type { OwnAddress } from '../../routing/plan-hops.ts';
import { isByBgp } from '../../routing/pool-modes.ts';

export interface BgpPorts {
  readonly bird: Pick<Bird, 'apply' | 'status' | 'ended'>;
  /** Where BIRD writes its log. */
  readonly birdLog: string;
  readonly readSecret: ReadSecret;
  readonly log: Log;
}

export interface BgpQuestion {
  readonly node: NodeName;
  readonly state: ClusterState;
  readonly addresses: ReadonlyMap<Family, OwnAddress>;
  /** Single addresses of pods of this node that are in no block of the address manager, or floating. */
  readonly localAddresses: readonly Address[];
}

/**
 * Has BIRD announce what this node holds and learn what the others do. Without a pool in BGP mode it is not started,
 * and one that runs keeps its sessions with nothing to say. Returns why parts are left out, a sentence each.
 * @throws bgp/*
 */
export async function keepBgp(
  { bird, birdLog, readSecret, log }: BgpPorts,
  { node, state, addresses, localAddresses }: BgpQuestion,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const isNeeded = state.pools.some(isByBgp);
  if (!isNeeded && (await bird.status(signal)) === undefined) return [];
  const pools = state.pools.map((pool) => (isByBgp(pool) ? unencapsulated(pool.pool) : pool.pool));
  const configurations = state.bgpConfigurations;
  const planned = planSessions({ nodeName: node, nodes: state.nodes, configurations, peers: state.bgpPeers });
  const ready = await readPasswords(planned.sessions, readSecret, signal);
  const held = heldBy(node, state, localAddresses);
  const announced = planAnnouncements({ held, pools, configurations });
  const rendered = renderBird({
    routerId: routerIdOf(node, addresses.get(4)?.address),
    sessions: ready.sessions,
    announcements: announced.announcements,
    pools: bgpPoolCidrs(pools),
    log: { severity: bgpSettingsOf(node, configurations).logSeverity, file: birdLog },
    podLinkPrefix: HOST_LINK_PREFIX,
  });
  const applied = await bird.apply(rendered.text, signal);
  if (applied !== 'unchanged') log.info('BIRD configured', { how: applied, sessions: ready.sessions.length });
  const parts = [planned.problems, ready.problems, announced.problems, rendered.problems];
  return parts.flat().map(problemLine);
}

/** The node's blocks, and single addresses it has outside of them: borrowed, unmanaged or floating. */
function heldBy(node: NodeName, state: ClusterState, localAddresses: readonly Address[]): readonly Cidr[] {
  const concerned = state.blocksOf(node);
  const own = concerned.filter((block) => block.node === node).map(({ cidr }) => cidr);
  const single = [...concerned.flatMap(({ borrowed }) => borrowed.get(node) ?? []), ...localAddresses].map(hostCidr);
  return [...own, ...single.filter((cidr) => !own.some((block) => cidrContains(block, cidr)))];
}

/** A pool that leaves BGP is announced for as long as its mode lingers. */
function unencapsulated(pool: IpPool): IpPool {
  return { ...pool, spec: { ...pool.spec, vxlanMode: 'Never', ipipMode: 'Never' } };
}
