import { GATEWAYS, type PodNetwork } from '../../../dataplane/kernel.ts';
import {
  familiesOf,
  hostSysctls,
  podSysctls,
  sourceCheckSysctls,
  type Sysctl,
  sysctlName,
} from '../../../dataplane/link-sysctls.ts';
import type { Family } from '../../../net/address.ts';
import { formatCidr, hostCidr } from '../../../net/cidr.ts';
import { HOST_MAC } from '../../../net/mac.ts';
import type { RecordedStep } from './recording-kernel.ts';

type Place = 'host' | 'pod';

/** One change of the kernel, in the network namespace of the host or of the pod. */
export type KernelStep =
  | { readonly kind: 'remove-link'; readonly where: 'host'; readonly link: string; readonly container: string }
  | ({ readonly kind: 'link'; readonly where: Place; readonly link: string; readonly mac: string } & LinkFacts)
  | {
      readonly kind: 'sysctl';
      readonly where: Place;
      readonly name: string;
      readonly value: string;
      /** Whether the step is skipped on kernels without the setting. */
      readonly ifPresent: boolean;
    }
  | { readonly kind: 'address'; readonly where: Place; readonly link: string; readonly address: string }
  | {
      readonly kind: 'route';
      readonly where: Place;
      readonly link: string;
      readonly destination: string;
      readonly gateway?: string;
    }
  | {
      readonly kind: 'neighbour';
      readonly where: 'pod';
      readonly link: string;
      readonly address: string;
      readonly mac: string;
    };

interface LinkFacts {
  readonly peer: string;
  readonly mtu: number;
  readonly queues: number;
}

/** The link-local address of the host interface, which is the IPv6 gateway of pods. */
const GATEWAY_6 = `${GATEWAYS[6]}/64`;

/** Translates recorded calls into changes of the kernel. */
export function kernelSteps(recorded: readonly RecordedStep[]): readonly KernelStep[] {
  return recorded.flatMap((step): readonly KernelStep[] =>
    step.kind === 'apply'
      ? stepsOf(step.network)
      : [{ kind: 'remove-link', where: 'host', link: step.hostLinkName, container: step.owner.containerId }],
  );
}

function stepsOf(network: PodNetwork & { readonly mtu: number }): readonly KernelStep[] {
  const { hostLinkName: host, podLinkName: pod, mtu, queues, podMac, addresses, routes } = network;
  const families = familiesOf(addresses);
  const own = addresses.map((address) => formatCidr(hostCidr(address)));
  const hostSide: KernelStep[] = [
    { kind: 'link', where: 'host', link: host, mac: HOST_MAC, peer: pod, mtu, queues },
    ...settings('host', hostSysctls(host, families)),
    ...settings('host', sourceCheckSysctls(host, families, 'strict')),
    ...(families.has(6) ? [{ kind: 'address', where: 'host', link: host, address: GATEWAY_6 } as const] : []),
  ];
  const podSide: KernelStep[] = [
    { kind: 'link', where: 'pod', link: pod, mac: podMac, peer: host, mtu, queues },
    ...settings('pod', podSysctls(network)),
    ...own.map((address) => ({ kind: 'address', where: 'pod', link: pod, address }) as const),
    ...[...families].flatMap((family) => gatewaySteps(pod, family)),
    ...routes.map((cidr): KernelStep => ({
      kind: 'route',
      where: 'pod',
      link: pod,
      destination: formatCidr(cidr),
      gateway: GATEWAYS[cidr.base.family],
    })),
  ];
  const hostRoutes = own.map((destination) => ({ kind: 'route', where: 'host', link: host, destination }) as const);
  return [...hostSide, ...podSide, ...hostRoutes];
}

/** Adds a permanent neighbour entry, so that the pod never resolves its gateway. */
function gatewaySteps(link: string, family: Family): readonly KernelStep[] {
  const address = GATEWAYS[family];
  const destination = `${address}/${family === 4 ? '32' : '128'}`;
  return [
    { kind: 'route', where: 'pod', link, destination },
    { kind: 'neighbour', where: 'pod', link, address, mac: HOST_MAC },
  ];
}

function settings(where: Place, sysctls: readonly Sysctl[]): readonly KernelStep[] {
  return sysctls.map(({ path, value, isOptional }) => ({
    kind: 'sysctl',
    where,
    name: sysctlName(path),
    value,
    ifPresent: isOptional,
  }));
}
