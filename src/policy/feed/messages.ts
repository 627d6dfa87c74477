// What the agent and the sidecar of a pod say to each other: format 1. Frames are those of `stream/`, their payload is JSON.
import type { Family } from '../../net/address.ts';
import type { PolicyTier } from '../resolved-policy.ts';
import type { WireRule } from './wire-rule.ts';

/** First bytes of each side. */
export const GREETING = Buffer.from('NPS1');
/** Abstract names in the network namespace of a pod. */
export const AGENT_SOCKET = '\0netplug-policy';
export const CHECK_SOCKET = '\0netplug-check';
/** Largest payload of a frame to the sidecar, and of one from it: any process of the pod can say that it is the sidecar. */
export const MOST_BYTES = { ofAgent: 8 * 2 ** 20, ofSidecar: 2 ** 18 };
/** Entries of a list, in a message of the sidecar. */
export const MOST_LISTED = 500;
/** Characters of a text in a message of the sidecar. */
export const MOST_TEXT = 256;
export const FORMAT = 1;

export type IdentityMode = 'AddressOrCertificate' | 'Certificate';

/** The pod, and which policies apply to what it receives. */
export interface FedEndpoint {
  readonly key: string;
  readonly shown: string;
  readonly node: string;
  readonly namespace: string;
  readonly addresses: readonly string[];
  readonly profiles: readonly string[];
  /** Whether requests have to be judged. Once they had to, they are until the connection ends: what the kernel let in stays. */
  readonly asks: boolean;
  readonly tiers: readonly (Pick<PolicyTier, 'name' | 'defaultAction'> & {
    /** Ids, in order. */
    readonly policies: readonly string[];
  })[];
}

/** A part of what the pod's policies say. Those between `begin` and `end` apply together. */
export type FedPart =
  | { readonly type: 'endpoint'; readonly endpoint: FedEndpoint }
  | {
      readonly type: 'policy';
      readonly id: string;
      readonly isStaged: boolean;
      readonly rules: readonly WireRule[];
    }
  | { readonly type: 'profile'; readonly name: string; readonly rules: readonly WireRule[] }
  /** Entries of a set that rules look up, in pieces. With `isWhole` it has no others from before. */
  | {
      readonly type: 'set';
      readonly key: string;
      readonly isWhole: boolean;
      readonly added: readonly string[];
      readonly removed: readonly string[];
    }
  | { readonly type: 'gone'; readonly what: 'policy' | 'profile' | 'set'; readonly key: string };

export type FromAgent =
  | {
      readonly type: 'welcome';
      readonly format: number;
      readonly release: string;
      readonly trustDomains: readonly string[];
      readonly identity: IdentityMode;
    }
  | { readonly type: 'begin'; readonly generation: number }
  | FedPart
  | { readonly type: 'end'; readonly generation: number };

/** What the proxy's own configuration shows. */
export interface GuardProof {
  /** Destination ports of which each way to the application is for HTTP, and asks the sidecar about every request. */
  readonly ports: readonly number[];
  /** Other ports that the proxy has ways for, and why they do not count. */
  readonly open: readonly { readonly port: number; readonly why: string }[];
  /** In which the proxy receives connections. */
  readonly families: readonly Family[];
  /** Version; empty when it did not answer. */
  readonly proxy: string;
  /** Why no port counts, a sentence each. */
  readonly problems: readonly string[];
}

/** Requests of one kind that were judged alike. */
export interface JudgedRequests {
  /** Id of the policy, or `Profile NAME`; undefined when no single one decided. */
  readonly policy?: string | undefined;
  readonly index?: number | undefined;
  readonly verdict: 'allow' | 'deny';
  readonly method: string;
  /** Without query; as the client wrote it. */
  readonly path: string;
  readonly source: string;
  readonly port: number;
  readonly account?: string | undefined;
  readonly count: number;
  /** Why, when it is not the rules: `path is not canonical`. */
  readonly note?: string | undefined;
}

export type FromSidecar =
  | { readonly type: 'hello'; readonly release: string; readonly formats: readonly number[] }
  | { readonly type: 'applied'; readonly generation: number }
  | { readonly type: 'guard'; readonly proof: GuardProof }
  | { readonly type: 'requests'; readonly requests: readonly JudgedRequests[] };
