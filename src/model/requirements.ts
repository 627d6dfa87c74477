import { isNewerVersion } from '../base/compare-versions.ts';

/** Bounds of what netplug supports, in numbers of releases. docs/requirements.md has their reasons. */
export const REQUIREMENTS = {
  kubernetes: { oldest: '1.34', newest: '1.37' },
  containerd: { oldest: '2.0' },
  kernel: { oldest: '5.10' },
} as const;

/** What carries packets to Services, in the words of kube-proxy. */
export const SERVICE_PROXY = {
  supported: ['nftables', 'iptables'],
  /** Why the mode `ipvs` is not supported, from the path that the kernel gives these packets. */
  notIpvs:
    'with IPVS the kernel delivers a packet for a Service on the node and sends it anew, so that policies do not see it on its way between pods: egress policies judge the address of the Service, and ingress policies of a pod do not judge what reaches it through a Service on its own node. Kubernetes has deprecated IPVS since 1.35',
} as const;

export const ARCHITECTURES: readonly string[] = ['amd64', 'arm64'];

/** Reports whether a version is older than the oldest supported one. A text without a version is not. */
export function isTooOld(part: keyof typeof REQUIREMENTS, version: string): boolean {
  const numbers = /^v?(\d+(?:\.\d+)+)/.exec(version.trim())?.[1] ?? '';
  return isNewerVersion(REQUIREMENTS[part].oldest, numbers);
}
