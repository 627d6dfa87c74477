import type { Kernel, LinkOwner, PodNetwork, PodNetworkState } from '../../../dataplane/kernel.ts';

export interface RecordingKernel {
  readonly kernel: Kernel;
  /** Recorded changes, in order. */
  readonly steps: readonly RecordedStep[];
}

export type RecordedStep =
  | {
      readonly kind: 'remove';
      readonly hostLinkName: string;
      readonly owner: Pick<LinkOwner, 'containerId' | 'ifName'>;
    }
  | { readonly kind: 'apply'; readonly network: PodNetwork & { readonly mtu: number } };

/** The default MTU of veth interfaces. */
const KERNEL_MTU = 1500;

const NOTHING: PodNetworkState = {
  hostLink: undefined,
  podLink: undefined,
  podAddresses: [],
  podRoutes: [],
  hostRoutes: [],
  wrongSysctls: [],
  ipForwarding: { 4: false, 6: false },
};

/** Returns a kernel that reads from `inner`, if any, and records changes instead of applying them. */
export function recordingKernel(inner: Kernel | undefined): RecordingKernel {
  const steps: RecordedStep[] = [];
  const kernel: Kernel = {
    assertNetns: (path) => inner?.assertNetns(path),
    observe: (network) => inner?.observe(network) ?? NOTHING,
    listHostLinks: () => inner?.listHostLinks() ?? [],
    listConnectedLinks: () => inner?.listConnectedLinks() ?? [],
    listPodAddresses: async () => (await inner?.listPodAddresses()) ?? [],
    apply: async (network) => {
      const mtu = network.mtu ?? KERNEL_MTU;
      steps.push({ kind: 'apply', network: { ...network, mtu } });
      return Promise.resolve({ mtu });
    },
    remove: async (hostLinkName, owner) => {
      steps.push({ kind: 'remove', hostLinkName, owner });
      return Promise.resolve(true);
    },
  };
  return { kernel, steps };
}
