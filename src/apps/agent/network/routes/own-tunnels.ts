import { isDeepStrictEqual } from 'node:util';
import type { ClusterChange } from '../../../../cache/cluster-view.ts';
import type { Address, Family } from '../../../../net/address.ts';
import { cidrContains } from '../../../../net/cidr.ts';
import type { ClusterState } from '../../../../routing/cluster-state.ts';
import type { OwnAddress } from '../../../../routing/plan-hops.ts';
import type { TunnelKind } from '../../../../routing/tunnels.ts';
import type { NetworkSettings } from '../network-settings.ts';
import { podCidrAddress, podCidrProblems } from './pod-cidrs.ts';
import { type OwnTunnel, reconcileTunnels, type ReconciledTunnels, type TunnelPorts } from './reconcile-tunnels.ts';

/** The tunnel devices of the node. Their addresses come from the address manager or from the pod CIDRs of the node. */
export class OwnTunnels {
  readonly #ports: TunnelPorts;
  readonly #settings: Pick<NetworkSettings, 'node' | 'blockSource'>;
  readonly #state: ClusterState;
  readonly #onNew: () => void;
  #all: readonly OwnTunnel[] = [];
  #idle: ReadonlySet<TunnelKind> = new Set();
  /** Whether the addresses must be checked with the address manager, because something they depend on has changed. */
  #isAddressDue = true;
  #hasSucceeded = false;
  #problems: readonly string[] = [];

  /** Calls `onNew` when devices were made whose routes and peers are missing. */
  constructor(
    ports: TunnelPorts,
    settings: Pick<NetworkSettings, 'node' | 'blockSource'>,
    { state, onNew }: { readonly state: ClusterState; readonly onNew: () => void },
  ) {
    this.#ports = ports;
    this.#settings = settings;
    this.#state = state;
    this.#onNew = onNew;
  }

  get all(): readonly OwnTunnel[] {
    return this.#all;
  }

  get problems(): readonly string[] {
    return this.#problems;
  }

  /** Makes the next reconcile check the addresses with the address manager. */
  requireAddresses(): void {
    this.#isAddressDue = true;
  }

  /** Reports whether a tunnel has an address of the block. */
  hasAddressIn({ cidr }: Extract<ClusterChange, { readonly kind: 'block' }>): boolean {
    return this.#all.some(({ address }) => address !== undefined && cidrContains(cidr, address));
  }

  /** Reports whether the tunnels have changed. @throws kernel/failed, store/* */
  async reconcile(addresses: ReadonlyMap<Family, OwnAddress>, signal: AbortSignal): Promise<boolean> {
    const { node, blockSource } = this.#settings;
    const present = (kind: TunnelKind): Address | undefined => this.#all.find((each) => each.kind === kind)?.address;
    const question = { node, state: this.#state, addresses, idle: this.#idle, present };
    const byPodCidr = (kind: TunnelKind): Address | undefined => podCidrAddress(this.#state, node, kind);
    const unmanaged = { ...question, fixedAddress: blockSource === 'pod-cidrs' ? byPodCidr : present };
    const isManaged = blockSource === 'claims' && this.#isAddressDue;
    this.#isAddressDue = false;
    const made = reconcileTunnels(this.#ports, isManaged ? question : unmanaged, signal);
    const { tunnels, idle, problems } = await made.catch(async (cause: unknown) => {
      this.#isAddressDue = true;
      // Recreates a device that was removed, with the address that it had.
      if (isManaged && this.#hasSucceeded) this.#note(await reconcileTunnels(this.#ports, unmanaged, signal));
      throw cause;
    });
    this.#hasSucceeded = true;
    this.#isAddressDue ||= tunnels.some(({ address }) => address === undefined);
    const isSame = isDeepStrictEqual(tunnels, this.#all);
    this.#all = tunnels;
    this.#idle = idle;
    this.#note({ tunnels });
    this.#problems = [...problems, ...(blockSource === 'claims' ? [] : podCidrProblems(this.#state, node))];
    return !isSame;
  }

  #note({ tunnels }: Pick<ReconciledTunnels, 'tunnels'>): void {
    if (tunnels.some(({ isNew }) => isNew)) this.#onNew();
  }
}
