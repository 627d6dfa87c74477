import type { InstallationSpec } from '../../model/installation.ts';
import type { InstallMethod } from './checks/preflight-facts.ts';
import type { Variant } from './settings.ts';

/** Fields of the network that an agent of the variant does not use, because another plugin does that work. */
const IDLE_IN: Readonly<Record<Variant, readonly (keyof NonNullable<InstallationSpec['calicoNetwork']>)[]>> = {
  'policy-and-networking': [],
  'second-plugin': ['bgp', 'floatingIPs'],
  'policy-only': [
    'ipPools',
    'bgp',
    'mtu',
    'hostPorts',
    'bandwidth',
    'containerIPForwarding',
    'floatingIPs',
    'ipAddrsNoIpam',
  ],
};

/** Returns the paths of fields that the spec sets to something and that have no effect, each with the reason. Pure. */
export function idleFields(
  spec: InstallationSpec,
  { method, variant }: { readonly method: InstallMethod; readonly variant: Variant },
): readonly { readonly path: string; readonly reason: string }[] {
  const { cni, calicoNetwork: network = {}, logging, deletionPolicy } = spec;
  const isPolicyOnly = variant === 'policy-only';
  const hasIpam = variant !== 'policy-and-networking' && cni?.ipam?.type === 'netplug-ipam';
  const paths = [
    ...(hasIpam ? ['cni.ipam.type'] : []),
    ...IDLE_IN[variant]
      .filter((name) => network[name] !== undefined && network[name] !== 'Disabled')
      .map((name) => `calicoNetwork.${name}`),
    ...(isPolicyOnly && network.policy === 'Disabled' ? ['calicoNetwork.policy'] : []),
    ...(isPolicyOnly && logging !== undefined ? ['logging'] : []),
  ].map((path) => ({ path: `spec.${path}`, reason: `--variant ${variant}` }));
  const isManaged = method !== 'manifest';
  return [
    ...paths,
    ...(isManaged || deletionPolicy === undefined
      ? []
      : [{ path: 'spec.deletionPolicy', reason: '--method manifest, which installs no operator' }]),
  ];
}
