import { untilBeat } from '../../../../base/clock.ts';
import { NetplugError } from '../../../../base/errors.ts';
import { problemLine } from '../../../../base/problem.ts';
import { bgpSettingsOf } from '../../../../bgp/bgp-settings.ts';
import type { Bird } from '../../../../bgp/bird.ts';
import { bgpPoolCidrs, planAnnouncements } from '../../../../bgp/plan-announcements.ts';
import { Passwords, type ReadSecret } from '../../../../bgp/passwords.ts';
import { planSessions, type SessionsPlan } from '../../../../bgp/plan-sessions.ts';
import { isDeaf, type SessionStatus } from '../../../../bgp/read-status.ts';
import { renderBird } from '../../../../bgp/render-bird.ts';
import { routerIdOf } from '../../../../bgp/router-id.ts';
import { HOST_LINK_PREFIX } from '../../../../dataplane/kernel.ts';
import type { IpPool } from '../../../../model/ip-pool.ts';
import type { NodeName } from '../../../../model/names.ts';
import type { Address, Family } from '../../../../net/address.ts';
import { findOverlap, type UsedRange } from '../../../../model/used-range.ts';
import { type Cidr, cidrContains, cidrsOverlap, hostCidr } from '../../../../net/cidr.ts';
import type { ClusterState } from '../../../../routing/cluster-state.ts';
import type { OwnAddress } from '../../../../routing/plan-hops.ts';
import { isByBgp } from '../../../../routing/pool-modes.ts';
import type { NetworkSettings } from '../network-settings.ts';
import { BirdRenewal, type RenewalPorts } from './renew-bird.ts';

/** Interval at which to check whether a pool needs BIRD. */
const NEEDED_CHECK_MS = 5000;
const RESTART_MS = 1000;

export interface BgpPorts extends RenewalPorts {
  readonly bird: RenewalPorts['bird'] & Pick<Bird, 'apply' | 'ended' | 'enableSessions' | 'findProcess'>;
  /** Returns the program that listens on a TCP port of the host, apart from that process; undefined when none can be seen. */
  readonly findListener: (port: number, except: number | undefined) => Promise<string | undefined>;
  /** Where BIRD writes its log. */
  readonly birdLog: string;
  readonly readSecret: ReadSecret;
}

interface BgpQuestion {
  readonly addresses: ReadonlyMap<Family, OwnAddress>;
  /** Single addresses of pods of this node that are in no block of the address manager, or floating. */
  readonly localAddresses: readonly Address[];
  /** Ranges that the node itself needs: no block over them is announced, and no route over them accepted from another node. */
  readonly protectedRanges: readonly UsedRange[];
}

/** Configures BIRD to announce the node's addresses and to learn routes to other nodes. */
export class BgpReconciler {
  readonly #ports: BgpPorts;
  readonly #node: NodeName;
  readonly #state: ClusterState;
  readonly #passwords: Passwords;
  readonly #renewal: BirdRenewal;
  /** Whether BIRD has loaded what was last wanted. */
  #isApplied = false;

  constructor(ports: BgpPorts, { node, birdLinks }: Pick<NetworkSettings, 'node' | 'birdLinks'>, state: ClusterState) {
    this.#ports = ports;
    this.#node = node;
    this.#state = state;
    const isInForce = (): boolean => this.#isNeeded() && this.#isApplied;
    this.#renewal = new BirdRenewal(ports, { afterLinks: birdLinks, isInForce });
    this.#passwords = new Passwords(ports.readSecret);
  }

  /**
   * Applies sessions and announcements. Does not start BIRD without a pool in BGP mode; a running BIRD then keeps its
   * sessions and announces nothing. Returns problems, a sentence each, or `unread` when it has applied nothing because
   * `readPasswords` must read a new password first.
   * @throws bgp/*
   */
  async reconcile(
    { addresses, localAddresses, protectedRanges }: BgpQuestion,
    signal: AbortSignal,
  ): Promise<readonly string[] | 'unread'> {
    const { bird, birdLog, log } = this.#ports;
    this.#isApplied = false;
    const { pools: all, bgpConfigurations: configurations } = this.#state;
    if (!(await this.#isInUse(signal))) return [];
    const pools = all.map((pool) => (isByBgp(pool) ? unencapsulated(pool.pool) : pool.pool));
    const planned = this.#planSessions();
    const ready = this.#passwords.addTo(planned.sessions);
    if (ready === undefined) return 'unread';
    const held = heldBy(this.#node, this.#state, localAddresses).filter(
      (cidr) => findOverlap(cidr, protectedRanges) === undefined,
    );
    const distributed = bgpPoolCidrs(pools);
    const announced = planAnnouncements({ held, pools, configurations });
    const rendered = renderBird({
      routerId: routerIdOf(this.#node, addresses.get(4)?.address),
      sessions: ready.sessions,
      announcements: announced.announcements,
      pools: distributed,
      refused: protectedRanges.map(({ cidr }) => cidr).filter((cidr) => distributed.some((p) => cidrsOverlap(p, cidr))),
      log: { severity: bgpSettingsOf(this.#node, configurations).logSeverity, file: birdLog },
      podLinkPrefix: HOST_LINK_PREFIX,
    });
    const applied = await bird.apply(rendered.text, signal);
    this.#isApplied = true;
    await this.#listen(signal);
    if (applied !== 'unchanged') log.info('BIRD configured', { how: applied, sessions: ready.sessions.length });
    const parts = [planned.problems, ready.problems, announced.problems, rendered.problems];
    return parts.flat().map(problemLine);
  }

  /** Reads the passwords of all sessions. Reports whether any has changed. */
  async readPasswords(signal: AbortSignal): Promise<boolean> {
    return (await this.#isInUse(signal)) && this.#passwords.read(this.#planSessions().sessions, signal);
  }

  /** Calls `onEnded` whenever BIRD has exited although a pool needs it. */
  async watchBird(onEnded: () => void, signal: AbortSignal): Promise<void> {
    const { bird, clock } = this.#ports;
    while (!signal.aborted) {
      const isNeeded = this.#isNeeded();
      if (isNeeded) {
        await bird.ended(signal).catch(() => undefined);
        onEnded();
      }
      const pauseMs = isNeeded ? RESTART_MS : untilBeat(NEEDED_CHECK_MS, clock);
      await clock.sleep(pauseMs, signal).catch(() => undefined);
    }
  }

  /** Restarts BIRD when it keeps entries of too many links. */
  async renewBird(signal: AbortSignal): Promise<void> {
    await this.#renewal.run(signal);
  }

  /** Lets BIRD try again where it could not listen. @throws bgp/port-taken while it cannot */
  async #listen(signal: AbortSignal): Promise<void> {
    const { bird, findListener } = this.#ports;
    const deaf = async (): Promise<readonly SessionStatus[]> => (await bird.status(signal))?.filter(isDeaf) ?? [];
    const before = await deaf();
    if (before.length === 0) return;
    await bird.enableSessions(
      before.map(({ name }) => name),
      signal,
    );
    if ((await deaf()).length === 0) return;
    const port = bgpSettingsOf(this.#node, this.#state.bgpConfigurations).listenPort;
    throw portTaken(port, await findListener(port, await bird.findProcess()));
  }

  /** Reports whether BIRD must be configured: a pool needs it, or it still runs. */
  async #isInUse(signal: AbortSignal): Promise<boolean> {
    return this.#isNeeded() || (await this.#ports.bird.status(signal)) !== undefined;
  }

  #isNeeded(): boolean {
    return this.#state.pools.some(isByBgp);
  }

  #planSessions(): SessionsPlan {
    const { nodes, bgpConfigurations: configurations, bgpPeers: peers } = this.#state;
    return planSessions({ nodeName: this.#node, nodes, configurations, peers });
  }
}

function portTaken(port: number, holder: string | undefined): NetplugError {
  const program = holder ?? 'another program';
  return new NetplugError('bgp/port-taken', `BIRD cannot listen on TCP port ${String(port)}: ${program} does`, {
    hint: 'Stop that program on the node, or give BIRD another port: listenPort of a BGPConfiguration',
    facts: { port, holder },
  });
}

/** Returns the node's blocks, and its single addresses outside of them: borrowed, unmanaged or floating. */
function heldBy(node: NodeName, state: ClusterState, localAddresses: readonly Address[]): readonly Cidr[] {
  const concerned = state.blocksOf(node);
  const own = concerned.filter((block) => block.node === node).map(({ cidr }) => cidr);
  const single = [...concerned.flatMap(({ borrowed }) => borrowed.get(node) ?? []), ...localAddresses].map(hostCidr);
  return [...own, ...single.filter((cidr) => !own.some((block) => cidrContains(block, cidr)))];
}

/** Returns the pool in BGP mode. BGP announces a pool that has left BGP until the replaced mode expires. */
function unencapsulated(pool: IpPool): IpPool {
  return { ...pool, spec: { ...pool.spec, vxlanMode: 'Never', ipipMode: 'Never' } };
}
