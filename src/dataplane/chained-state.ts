import { createHash } from 'node:crypto';
import type { Family } from '../net/address.ts';

/** A container as the standard plugins that runtimes call after netplug know it. */
export interface ChainedContainer {
  readonly network: string;
  readonly containerId: string;
}

/** A rule of the plugin portmap that leads packets for ports of the host to a container. */
export interface PortRule {
  readonly family: Family;
  /** The chain of the container, or its id: what the back end of the plugin names it by. */
  readonly mark: string;
  /** Whether the chains that the kernel calls lead to the rule. */
  readonly isReached: boolean;
}

/** What the standard plugins portmap and bandwidth keep on the host, as far as nftables and links show it. */
export interface ChainedState {
  /** Lists the rules of all containers. Those of iptables-legacy are not visible. @throws kernel/failed */
  listPortRules(signal: AbortSignal): Promise<readonly PortRule[]>;

  /** Removes the rules and chains of one container. Idempotent. @throws kernel/failed */
  removePortRules(container: ChainedContainer, signal: AbortSignal): Promise<void>;

  /** Returns those of the names that devices of bandwidth have. @throws kernel/failed */
  findShapers(names: readonly string[]): Promise<readonly string[]>;

  /** Removes a device of bandwidth. Idempotent. @throws kernel/failed */
  removeShaper(name: string): Promise<void>;
}

/** Prefix of the chains that portmap makes for containers with iptables. */
export const PORT_CHAIN_PREFIX = 'CNI-DN-';
const CHAIN_LENGTH = 28;
const SHAPER_PREFIX = 'bwp';
const SHAPER_LENGTH = 15;

/** Returns the marks that rules of the container have, one for each back end of portmap. */
export function portMarksOf(container: ChainedContainer): { readonly chain: string; readonly comment: string } {
  return { chain: hashedName(PORT_CHAIN_PREFIX, CHAIN_LENGTH, container), comment: container.containerId };
}

/** Returns the name of the device by which bandwidth limits what the container sends. */
export function shaperOf(container: ChainedContainer): string {
  return hashedName(SHAPER_PREFIX, SHAPER_LENGTH, container);
}

function hashedName(prefix: string, length: number, { network, containerId }: ChainedContainer): string {
  return `${prefix}${createHash('sha512').update(`${network}${containerId}`).digest('hex')}`.slice(0, length);
}
