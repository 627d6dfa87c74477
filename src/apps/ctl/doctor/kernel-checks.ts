import { ownValue } from '../../../base/own-value.ts';
import { PROXY_CHECK } from '../../../checks/cluster-checks.ts';
import { isTooOld, REQUIREMENTS, SERVICE_PROXY } from '../../../model/requirements.ts';
import { forwardingSysctls } from '../../../dataplane/link-sysctls.ts';
import { describeIncomplete } from '../../../dataplane/kernel.ts';
import { overruledProblems } from '../../../routing/overruled-routes.ts';
import { VXLAN_PORT, VXLAN_VNI } from '../../../routing/tunnels.ts';
import { describeRateLimit, isUnbounded } from '../../../dataplane/rate-limits.ts';
import { FIREWALL_SEVERITIES, type FirewallFault } from '../../../install/host/firewall/judge-firewall.ts';
import { FULL_TABLE_SEVERITIES, type FullTable } from '../../../install/host/kernel-tables.ts';
import { type Ability, ABILITIES, gatherKernel, type KernelFacts } from './kernel-facts.ts';
import type { Check, CheckInfo, Fault, Severity } from '../../../checks/check.ts';
import { describeUnconnected, UNCONNECTED_REMEDY } from '../../../install/host/unconnected-pods.ts';
import { LEFT_OVER_REMEDY, leftOverSentence } from '../../../install/host/left-overs.ts';
import { topic } from './topic.ts';

/** What agents report as problems of nodes, too, with the same severity. */
type HostCode = FirewallFault['code'] | FullTable['code'];
const HOST_SEVERITIES: Readonly<Record<HostCode, Severity>> = { ...FIREWALL_SEVERITIES, ...FULL_TABLE_SEVERITIES };
const HOST_EXPECTED: Readonly<Record<HostCode, string>> = {
  'kernel/forward-dropped': 'a host firewall that accepts forwarded packets of pods',
  'kernel/outside-dropped': 'a host firewall that accepts connections between pods and addresses outside the pools',
  'kernel/tunnel-dropped':
    'a host firewall that accepts packets of tunnels from and to other nodes, where a pool has a tunnel',
  'kernel/bgp-dropped': 'a host firewall that accepts BGP from and to other nodes, where a pool is in BGP mode',
  'kernel/flows-full': 'room for further flows in the table of tracked ones',
  'kernel/flows-nearly-full': 'a table of tracked flows of which a fifth is free',
  'kernel/neighbours-full': 'room for further neighbours in the table of the kernel',
  'kernel/neighbours-nearly-full': 'a table of neighbours of which a fifth is free',
};

export const FIREWALL_CHECKS: readonly Check<Pick<KernelFacts, 'firewall'>>[] = [
  firewallCheck('kernel/forward-dropped'),
  firewallCheck('kernel/outside-dropped'),
  firewallCheck('kernel/tunnel-dropped'),
  firewallCheck('kernel/bgp-dropped'),
  {
    id: 'kernel/filter-unread',
    severity: 'note',
    expected: 'a host firewall whose rules for packets of pods and nodes the doctor knows',
    remedy:
      'Make sure that the firewall accepts packets of pods and, where pools need them, tunnels and BGP of the other nodes',
    judge: ({ firewall }) => firewall.unread,
  },
];

const FULL_TABLE_CHECKS: readonly Check<Pick<KernelFacts, 'fullTables'>>[] = [
  fullTableCheck('kernel/flows-full'),
  fullTableCheck('kernel/flows-nearly-full'),
  fullTableCheck('kernel/neighbours-full'),
  fullTableCheck('kernel/neighbours-nearly-full'),
];

export const KERNEL_CHECKS: readonly Check<KernelFacts>[] = [
  {
    id: 'kernel/forwarding',
    severity: 'error',
    expected: 'a host that forwards packets of each IP family of pods, from tunnels and from the uplink',
    judge: ({ families, sysctls, forwardingLinks }) =>
      forwardingSysctls(families, forwardingLinks).flatMap(({ path, value }) => wrong(sysctls, path, value)),
  },
  ...FIREWALL_CHECKS,
  ...FULL_TABLE_CHECKS,
  {
    id: 'kernel/ipv6-off',
    severity: 'error',
    expected: 'a kernel with IPv6, when pods have IPv6 addresses',
    remedy: 'Boot the kernel without ipv6.disable=1',
    judge: ({ families, sysctls }) => {
      if (!families.has(6)) return [];
      if (sysctls['ipv6/conf/all/forwarding'] === undefined) return ['the kernel has no IPv6'];
      return wrong(sysctls, 'ipv6/conf/all/disable_ipv6', '0');
    },
  },
  {
    id: 'kernel/missing',
    severity: 'error',
    expected: 'a kernel that supports the devices and rules of pods and pools',
    judge: ({ needed, abilities }) =>
      [...needed]
        .filter((ability) => abilities[ability] === false)
        .map((ability) => ({
          found: `the kernel lacks ${ability}`,
          remedy: ability === 'veth' ? 'Load the module' : 'Load the module, or use another mode in the IP pools',
          command: `modprobe ${ability}`,
        })),
  },
  {
    id: 'kernel/untried',
    severity: 'note',
    expected: 'the programs unshare and ip, and the rights of root, to test the features of the kernel',
    remedy: 'Install util-linux and iproute2, and run the command as root',
    judge: ({ needed, abilities }) => {
      const untried = [...needed].filter((ability) => abilities[ability] === undefined);
      if (untried.length === 0) return [];
      const found = `cannot test whether the kernel has ${untried.join(', ')}`;
      return [found];
    },
  },
  {
    id: 'kernel/too-old',
    severity: 'error',
    expected: `Linux ${REQUIREMENTS.kernel.oldest} or later`,
    remedy: 'Upgrade the kernel of this node',
    judge: ({ release }) => (isTooOld('kernel', release) ? [`Linux ${release}`] : []),
  },
  {
    id: 'kernel/strict-tunnel',
    severity: 'warning',
    expected: 'tunnel devices that accept packets on asymmetric routes (rp_filter 2)',
    judge: ({ tunnels, sysctls }) =>
      tunnels
        .filter((device) => effective(sysctls, device) === 1)
        .flatMap((device) => wrong(sysctls, `ipv4/conf/${device}/rp_filter`, '2')),
  },
  {
    id: 'kernel/route-overruled',
    severity: 'error',
    expected: 'packets that take the routes of netplug, before rules and routes of other programs',
    judge: ({ overruled }) => faultsOf(overruled, 'error'),
  },
  {
    id: 'kernel/gateway-overruled',
    severity: 'warning',
    expected: "the gateways of netplug's routes, where another program has routes by the same device",
    judge: ({ overruled }) => faultsOf(overruled, 'warning'),
  },
  {
    id: 'kernel/left-overs',
    severity: 'warning',
    expected: 'nothing of a network plugin that is no longer configured',
    remedy: LEFT_OVER_REMEDY,
    judge: ({ leftOvers }) => leftOvers.map(leftOverSentence),
  },
  {
    id: 'kernel/tunnel-taken',
    severity: 'error',
    expected: `no VXLAN device of another program with the number ${String(VXLAN_VNI)} and the port ${String(VXLAN_PORT)}, where a pool needs them`,
    judge: ({ needed, rivals }) =>
      needed.has('vxlan')
        ? rivals.map((rival) => ({
            found: `VXLAN device "${rival}" has the number and the port of netplug's`,
            remedy: 'If nothing needs that device any more, delete it',
            ...(isPlain(rival) ? { command: `ip link delete dev ${rival}` } : {}),
          }))
        : [],
  },
  {
    id: 'kernel/pod-link',
    severity: 'error',
    expected: 'host interfaces of pods with the routes and settings that the ADD made',
    remedy:
      'netplug-agent restores them within seconds, settings that the kernel does not report within a minute: see with "netplugctl node status" whether it runs and what it cannot restore, or recreate the pod',
    judge: ({ incompleteLinks }) => incompleteLinks.map(describeIncomplete),
  },
  {
    id: 'kernel/rate-limit',
    severity: 'warning',
    expected: 'limits of the rates of pods that hold within a second',
    remedy:
      'netplug-agent bounds the burst within seconds: see with "netplugctl node status" whether it runs and what it says of rate limits. Without an agent, annotate the pod with "orch/ingress-bandwidth" and "orch/egress-bandwidth"',
    judge: ({ rateLimits }) =>
      rateLimits.filter((limit) => !limit.isBounded && isUnbounded(limit)).map(describeRateLimit),
  },
  {
    id: 'kernel/pod-without-interface',
    severity: 'error',
    expected: 'an interface of netplug for every pod whose network namespace exists, unless the pod is ending',
    remedy: UNCONNECTED_REMEDY,
    judge: ({ unconnected }) => unconnected.map(describeUnconnected),
  },
  {
    id: 'kernel/arp-ignored',
    severity: 'warning',
    expected: 'a host that answers ARP requests of pods for the gateway (arp_ignore below 8)',
    judge: ({ sysctls }) =>
      sysctls['ipv4/conf/all/arp_ignore'] === '8' ? wrong(sysctls, 'ipv4/conf/all/arp_ignore', '0') : [],
  },
  {
    id: 'kernel/ipvs',
    severity: 'warning',
    expected: PROXY_CHECK.expected,
    remedy: `${PROXY_CHECK.remedy}; a device that is left from before goes with: ip link delete NAME`,
    judge: ({ ipvsDevices }) =>
      ipvsDevices.map((name) => `device "${name}" is one of kube-proxy in the mode ipvs: ${SERVICE_PROXY.notIpvs}`),
  },
];

export const KERNEL = topic({
  area: 'kernel',
  scope: 'node',
  gather: gatherKernel,
  measure: ({ release, abilities }) => [
    `Linux ${release}`,
    ABILITIES.filter((ability: Ability) => abilities[ability] === true).join(' '),
  ],
  checks: KERNEL_CHECKS,
});

function faultsOf(overruled: KernelFacts['overruled'], severity: 'error' | 'warning'): readonly Fault[] {
  return overruledProblems(overruled)
    .filter((problem) => problem.severity === severity)
    .map(({ text, remedy }) => ({ found: text, remedy }));
}

function wrong(sysctls: KernelFacts['sysctls'], path: string, wanted: string): Fault[] {
  const found = ownValue(sysctls, path);
  if (found === wanted || found === undefined) return [];
  // The name of an interface may contain dots, which sysctl accepts only in a path with slashes.
  return [
    {
      found: `net/${path} is ${found}`,
      remedy: 'Set it now, and in /etc/sysctl.d to make that permanent',
      ...(isPlain(path) ? { command: `sysctl -w net/${path}=${wanted}` } : {}),
    },
  ];
}

/** Reports whether the names, which any program may have chosen, can stand in a command as they are. */
function isPlain(...names: readonly string[]): boolean {
  return names.every((name) => /^[\w./-]+$/.test(name));
}

function firewallCheck(id: FirewallFault['code']): Check<Pick<KernelFacts, 'firewall'>> {
  return { ...infoOf(id), judge: ({ firewall }) => faultsWith(id, firewall.faults) };
}

function fullTableCheck(id: FullTable['code']): Check<Pick<KernelFacts, 'fullTables'>> {
  return { ...infoOf(id), judge: ({ fullTables }) => faultsWith(id, fullTables) };
}

function infoOf(id: HostCode): CheckInfo {
  return { id, severity: HOST_SEVERITIES[id], expected: HOST_EXPECTED[id] };
}

function faultsWith(id: HostCode, faults: readonly (Fault & { readonly code: HostCode })[]): readonly Fault[] {
  return faults.flatMap(({ code, ...fault }) => (code === id ? [fault] : []));
}

/** Returns the larger of both settings, which the kernel applies. */
function effective(sysctls: KernelFacts['sysctls'], device: string): number {
  return Math.max(
    Number(sysctls['ipv4/conf/all/rp_filter']),
    Number(ownValue(sysctls, `ipv4/conf/${device}/rp_filter`)),
  );
}
