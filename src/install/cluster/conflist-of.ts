import type { Family } from '../../net/address.ts';
import { CONF_DIR, KUBECONFIG_NAME, LOG_FILE, NODE_NAME_PLACEHOLDER } from '../places.ts';
import { renderConflist } from '../render-conflist.ts';
import { KV_FILES } from './agent-daemon-set.ts';
import type { ClusterSettings } from './settings.ts';

const NETWORK_NAME = 'k8s-pod-network';
const POD_CIDR: Readonly<Record<Family, string>> = { 4: 'usePodCidr', 6: 'usePodCidrIPv6' };

/** Returns the conflist that the agent installs on each node. */
export function conflistOf(settings: ClusterSettings): object {
  const { ipam, families, log, hostPorts, bandwidth, policy, containerIpForwarding, mtu } = settings;
  return renderConflist({
    name: NETWORK_NAME,
    datastore: datastoreOf(settings),
    orchAccess: { by: 'file', path: `${CONF_DIR}/${KUBECONFIG_NAME}` },
    mtu,
    assignIpv6: families.includes(6),
    ipam: ipam === 'HostLocal' ? hostLocal(families) : ownAddresses(families),
    logFilePath: LOG_FILE,
    chained: [...(hostPorts ? (['portmap'] as const) : []), ...(bandwidth ? (['bandwidth'] as const) : [])],
    policy: policy ? 'orch' : 'none',
    further: {
      nodename: NODE_NAME_PLACEHOLDER,
      log_level: log.severity,
      log_file_max_size: log.maxSizeMb,
      log_file_max_age: log.maxAgeDays,
      log_file_max_count: log.maxCount,
      ...(containerIpForwarding ? { container_settings: { allow_ip_forwarding: true } } : {}),
      ...featureControl(settings),
    },
  });
}

/** A feature that is off is left out. */
function featureControl({ floatingIps, ipAddrsNoIpam }: ClusterSettings): object {
  const features = {
    ...(ipAddrsNoIpam ? { ip_addrs_no_ipam: true } : {}),
    ...(floatingIps ? { floating_ips: true } : {}),
  };
  return Object.keys(features).length === 0 ? {} : { feature_control: features };
}

function ownAddresses(families: readonly Family[]): object {
  const isOn = (family: Family): string => String(families.includes(family));
  return { type: 'netplug-ipam', assign_ipv4: isOn(4), assign_ipv6: isOn(6) };
}

function hostLocal(families: readonly Family[]): object {
  return { type: 'host-local', ranges: families.map((family) => [{ subnet: POD_CIDR[family] }]) };
}

function datastoreOf({ datastore }: ClusterSettings): Parameters<typeof renderConflist>[0]['datastore'] {
  if (datastore.type === 'orch') {
    return { type: 'orch', orch: { orchconfig: undefined, apiRoot: undefined, nodeName: undefined } };
  }
  const isTls = datastore.tls === 'secret';
  return {
    type: 'kvv3',
    connection: {
      endpoints: { from: 'list', urls: datastore.endpoints.split(',') },
      keyFile: isTls ? KV_FILES.key : undefined,
      certFile: isTls ? KV_FILES.cert : undefined,
      caCertFile: isTls ? KV_FILES.ca : undefined,
    },
  };
}
