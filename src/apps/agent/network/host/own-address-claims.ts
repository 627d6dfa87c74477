import type { Clock } from '../../../../base/clock.ts';
import { isNetplugError } from '../../../../base/errors.ts';
import type { Random } from '../../../../base/random.ts';
import type { HostInterface } from '../../../../dataplane/host-network.ts';
import type { FollowStore } from '../../../../datastore/follow.ts';
import type { ResourceStore } from '../../../../datastore/resource-store.ts';
import type { NodeName } from '../../../../model/names.ts';
import { type Address, addressKey, type Family, sameAddress } from '../../../../net/address.ts';
import type { ClusterState } from '../../../../routing/cluster-state.ts';
import {
  type ClaimVerdict,
  type OtherClaim,
  CLAIM_SETTLES_MS,
  judgeClaim,
  weighClaim,
} from '../../../../routing/judge-claim.ts';
import type { NodeEnds } from '../../../../routing/node-ends.ts';
import type { OwnAddress } from '../../../../routing/plan-hops.ts';
import type { ContestedAddress, ClaimedAddresses } from './contested-addresses.ts';
import { readPublished } from './read-published.ts';

/** The longest pause before an address that two nodes have withdrawn is published again. */
const RETRY_MS = 10_000;
/** Nodes that are read again, because they publish an address of this one. */
const READ_NODES = 8;

export interface ClaimPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly store: Pick<ResourceStore, 'findResource'>;
  /** Where the nodes are followed. */
  readonly followed: FollowStore;
}

export interface ClaimQuestion {
  /** What the node would publish. */
  readonly wanted: ReadonlyMap<Family, OwnAddress>;
  /** What it has had; the address stands in for one that is withheld, if an interface still has it. */
  readonly before: ReadonlyMap<Family, OwnAddress>;
  readonly interfaces: readonly HostInterface[];
}

/** An address that the node may publish. */
interface Claim {
  /** When it was first seen in the record of this node; undefined until then. */
  readonly sinceMs: number | undefined;
  /** Whether this node has published it before any other one. */
  readonly isSettled: boolean;
}

/** Another node that publishes an address of this one. */
interface Other {
  readonly name: NodeName;
  readonly claim: Exclude<OtherClaim, 'outdated'>;
}

const NEW: Claim = { sinceMs: undefined, isSettled: false };

interface Withdrawn {
  /** When the address may be published again. */
  readonly untilMs: number;
  readonly others: readonly NodeName[];
}

/**
 * Decides which of its addresses a node may publish, so that no two nodes publish the same. A node withdraws an address first when
 * none of its interfaces has it any more, so that nodes which have exchanged their addresses end up with the right ones.
 */
export class OwnAddressClaims {
  readonly #ports: ClaimPorts;
  readonly #node: NodeName;
  readonly #state: Pick<ClusterState, 'nodeNames' | 'endsOf'>;
  /** By address. */
  readonly #claims = new Map<string, Claim>();
  /** By address: those that two nodes have published at the same time. */
  readonly #withdrawn = new Map<string, Withdrawn>();
  #hasBegun = false;
  #isContested = false;

  constructor(ports: ClaimPorts, node: NodeName, state: Pick<ClusterState, 'nodeNames' | 'endsOf'>) {
    this.#ports = ports;
    this.#node = node;
    this.#state = state;
  }

  /** Reports whether what other nodes publish may change what this one publishes. */
  get areOpen(): boolean {
    return this.#isContested || [...this.#claims.values()].some(({ isSettled }) => !isSettled);
  }

  /** Never fails for another node: one that cannot be read keeps its address. */
  async decide({ wanted, before, interfaces }: ClaimQuestion, signal: AbortSignal): Promise<ClaimedAddresses> {
    if (!this.#hasBegun) this.#begin();
    const addresses = new Map<Family, OwnAddress>();
    const conflicts: ContestedAddress[] = [];
    for (const [family, own] of wanted) {
      const { verdict, others } = await this.#judge(own.address, signal);
      if (verdict !== 'withheld') addresses.set(family, own);
      if (verdict === 'free') continue;
      const standIn = verdict === 'withheld' ? await this.#findStandIn(own, { before, interfaces }, signal) : undefined;
      if (standIn !== undefined) addresses.set(family, standIn);
      conflicts.push({ family, own, others, verdict, standIn });
    }
    const published = [...addresses.values()].map(({ address }) => addressKey(address));
    for (const key of this.#claims.keys()) if (!published.includes(key)) this.#claims.delete(key);
    this.#isContested = conflicts.length > 0;
    return { addresses, conflicts };
  }

  /** What the record has when the agent starts is no new claim: no record says which node was first, and a start must take nothing from pods. */
  #begin(): void {
    this.#hasBegun = true;
    const claim = { sinceMs: this.#ports.clock.monotonic(), isSettled: true };
    for (const address of this.#state.endsOf(this.#node).addresses.values())
      this.#claims.set(addressKey(address), claim);
  }

  /** Returns the address that the node has had, if an interface has it still, so that pods stay connected meanwhile. */
  async #findStandIn(
    { address }: OwnAddress,
    { before, interfaces }: Omit<ClaimQuestion, 'wanted'>,
    signal: AbortSignal,
  ): Promise<OwnAddress | undefined> {
    const { family } = address;
    const had = before.get(family)?.address ?? this.#state.endsOf(this.#node).addresses.get(family);
    if (had === undefined || sameAddress(had, address)) return undefined;
    const onLink = findOnLink(had, interfaces);
    return onLink === undefined || (await this.#judge(had, signal)).verdict === 'withheld' ? undefined : onLink;
  }

  async #judge(
    address: Address,
    signal: AbortSignal,
  ): Promise<{ readonly verdict: ClaimVerdict; readonly others: readonly NodeName[] }> {
    const { clock, random } = this.#ports;
    const key = addressKey(address);
    const seen = await this.#rivals(address, this.#namesInState(address), signal);
    const isPublished = publishes(this.#state.endsOf(this.#node), address);
    const before = this.#claims.get(key);
    // While the record did not have it, another node may have taken it.
    const current = isPublished ? { isSettled: false, ...before, sinceMs: before?.sinceMs ?? clock.monotonic() } : NEW;
    const isAlone = seen.length === 0;
    const { claim, rivals } = isAlone ? await this.#settle(address, current, signal) : { claim: current, rivals: seen };
    const others = rivals.map(({ name }) => name);
    const verdict = judgeClaim({ others: rivals.map((each) => each.claim), isSettled: claim.isSettled });
    const nowMs = clock.monotonic();
    if (verdict === 'withheld') {
      const untilMs = nowMs + random.int(RETRY_MS);
      if (isPublished || before !== undefined) this.#withdrawn.set(key, { untilMs, others });
      this.#claims.delete(key);
      return { verdict, others };
    }
    const withdrawn = this.#withdrawn.get(key);
    if (withdrawn !== undefined && nowMs < withdrawn.untilMs) return { verdict: 'withheld', others: withdrawn.others };
    this.#withdrawn.delete(key);
    this.#claims.set(key, claim);
    return { verdict, others };
  }

  /**
   * Settles a claim that seems to be alone for long enough. What this node follows may be old, and so may what others follow of it:
   * of two that publish an address, the one that reads later what all publish finds the other. A list in which this node has the
   * address is new enough, even where it is a copy.
   */
  async #settle(
    address: Address,
    claim: Claim,
    signal: AbortSignal,
  ): Promise<{ readonly claim: Claim; readonly rivals: readonly Other[] }> {
    const { clock, followed } = this.#ports;
    const { sinceMs, isSettled } = claim;
    const isDue = !isSettled && sinceMs !== undefined && clock.monotonic() - sinceMs >= CLAIM_SETTLES_MS;
    if (!isDue) return { claim, rivals: [] };
    const all = await readPublished(followed, signal);
    const names = [...(all ?? [])].filter(([, ends]) => publishes(ends, address)).map(([name]) => name);
    const rivals = await this.#rivals(
      address,
      names.filter((name) => name !== this.#node),
      signal,
    );
    if (names.includes(this.#node)) return { claim: { sinceMs, isSettled: rivals.length === 0 }, rivals };
    // Others cannot see the claim yet, or what they see is not known.
    return { claim: { sinceMs: clock.monotonic(), isSettled: false }, rivals };
  }

  /** Returns the other nodes that publish the address, as far as this one follows them. */
  #namesInState(address: Address): readonly NodeName[] {
    const { nodeNames } = this.#state;
    return nodeNames.filter((name) => name !== this.#node && publishes(this.#state.endsOf(name), address));
  }

  /** Weighs the claims of the nodes, and leaves out those that are outdated. */
  async #rivals(address: Address, names: readonly NodeName[], signal: AbortSignal): Promise<readonly Other[]> {
    const read = await Promise.all(names.slice(0, READ_NODES).map(async (name) => this.#weigh(address, name, signal)));
    return names.flatMap((name, index) => {
      const claim = read[index] ?? 'equal';
      return claim === 'outdated' ? [] : [{ name, claim }];
    });
  }

  /** Reads the Nodes themselves: the copy that others follow is as old as the agent that wrote it. */
  async #weigh(address: Address, name: NodeName, signal: AbortSignal): Promise<OtherClaim> {
    const { store } = this.#ports;
    try {
      const own = await store.findResource({ kind: 'Node', name: this.#node }, signal);
      return weighClaim(address, { own, other: await store.findResource({ kind: 'Node', name }, signal) });
    } catch (cause) {
      if (!isNetplugError(cause)) throw cause;
      return 'equal';
    }
  }
}

function publishes({ addresses }: NodeEnds, address: Address): boolean {
  const published = addresses.get(address.family);
  return published !== undefined && sameAddress(published, address);
}

function findOnLink(wanted: Address, interfaces: readonly HostInterface[]): OwnAddress | undefined {
  const all = interfaces.flatMap(({ name, mtu, addresses }) =>
    addresses.map((each) => ({ ...each, device: name, mtu })),
  );
  return all.find(({ address }) => sameAddress(address, wanted));
}
