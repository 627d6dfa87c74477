import type { PasswordSource } from '../model/spec-types.ts';
import type { InferOutput } from 'valibot';
import type { Address, Family } from '../net/address.ts';

export type PasswordReference = Readonly<InferOutput<typeof PasswordSource>>;

/** Who asked for a session: the mesh of all nodes, a peer of some nodes, or a peer of every node. */
export type SessionKind = 'mesh' | 'node' | 'global';

interface Session {
  /** Of the protocol in BIRD; the same for the same peer whatever else changes, so that a reload keeps the session. */
  readonly name: string;
  readonly kind: SessionKind;
  readonly family: Family;
  /** Name of the node that the peer is; undefined for a peer that is none of ours. */
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
  /** Own routes alone, or those learned from others as well. */
  readonly announces: 'own' | 'own-and-learned';
  /** Routes inside pools alone, or whatever the peer sends. */
  readonly accepts: 'pools' | 'everything';
  readonly nextHop: 'keep' | 'self';
  readonly restartTimeS: number;
  /** How often the own AS number may be in a path. */
  readonly allowedOwnAs: number;
  /** How many hops away the peer is at most; undefined where the TTL is not checked. */
  readonly ttlSecurityHops: number | undefined;
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
