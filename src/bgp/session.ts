import type { BfdSettings, PasswordSource } from '../model/spec-types.ts';
import type { InferOutput } from 'valibot';
import type { Address, Family } from '../net/address.ts';

export type PasswordReference = Readonly<InferOutput<typeof PasswordSource>>;

/** Times of BFD: `intervalMs` between packets, of which `multiplier` in a row must be missing. */
export type BfdTimers = Readonly<Pick<InferOutput<typeof BfdSettings>, 'intervalMs' | 'multiplier'>>;

/** The origin of a session: the full mesh of nodes, a peer of selected nodes, or a peer of every node. */
export type SessionKind = 'mesh' | 'node' | 'global';

interface Session {
  /** The name of the protocol in BIRD. It depends on the peer alone, so that a reload keeps the session. */
  readonly name: string;
  readonly kind: SessionKind;
  readonly family: Family;
  /** Name of the node that the peer is; undefined for a peer that is not a node. */
  readonly peerNode: string | undefined;
  readonly peerAddress: Address;
  readonly peerPort: number;
  readonly peerAs: number;
  readonly ownAs: number;
  readonly listenPort: number;
  /** Undefined where the kernel chooses. */
  readonly sourceAddress: Address | undefined;
  /** Whether the peer is inside the node's own subnet. */
  readonly reach: 'direct' | 'multihop';
  /** Waits for the peer to dial. */
  readonly isPassive: boolean;
  /** Set when this node reflects routes for the peer. */
  readonly reflectorClusterId: Address | undefined;
  /** Announces only the node's own routes, or those learned from other peers as well. */
  readonly announces: 'own' | 'own-and-learned';
  /** Accepts only routes inside pools, or every route of the peer. */
  readonly accepts: 'pools' | 'everything';
  readonly nextHop: 'keep' | 'self';
  readonly restartTimeS: number;
  /** Number of times that the own AS number may be in a path. */
  readonly allowedOwnAs: number;
  /** Largest number of hops to the peer; undefined where the TTL is not checked. */
  readonly ttlSecurityHops: number | undefined;
  /** Set where BFD watches the peer. A session that has this also has a source address. */
  readonly bfd: BfdTimers | undefined;
}

/** A session as resources ask for it. */
export interface PlannedSession extends Session {
  readonly passwordReference: PasswordReference | undefined;
}

/** A session whose password has been read; one that needs a password and has none never becomes this. */
export interface ReadySession extends Session {
  readonly password: string | undefined;
}

/** A BGP community (RFC 1997) or large community (RFC 8092). */
export type Community = readonly [number, number] | readonly [number, number, number];
