import { onlyNearMiss } from '../base/near-miss.ts';

/** Keys of the most similar plugins, with the key of the same meaning here. */
const RENAMED: ReadonlyMap<string, string> = new Map([
  ['etcd_endpoints', 'kv_endpoints'],
  ['etcd_discovery_srv', 'kv_discovery_srv'],
  ['etcd_key_file', 'kv_key_file'],
  ['etcd_cert_file', 'kv_cert_file'],
  ['etcd_ca_cert_file', 'kv_ca_cert_file'],
  ['etcd_authority', 'kv_authority'],
  ['etcd_scheme', 'kv_scheme'],
  ['kubernetes', 'orch'],
  ['hostname', 'nodename'],
  ['kubeconfig', 'orchconfig'],
  ['k8s_api_root', 'orch_api_root'],
]);

/** Keys of other plugins without a counterpart of the same meaning, with the advice what to do. */
const EXPLAINED: ReadonlyMap<string, string> = new Map([
  ...['bridge', 'isGateway', 'isDefaultGateway', 'forceAddress', 'hairpinMode', 'promiscMode', 'vlan'].map(
    (key) => [key, 'it belongs to the bridge plugin, and netplug makes no bridge; remove it'] as const,
  ),
  ...['master', 'mode', 'linkInContainer'].map(
    (key) => [key, 'it belongs to plugins such as macvlan; netplug makes a pair of links; remove it'] as const,
  ),
  ...['log_severity', 'log_severity_screen', 'log_severity_file'].map(
    (key) => [key, 'it belongs to an agent; "log_level" says what the plugin logs'] as const,
  ),
  ['delegate', 'it belongs to flannel, and netplug delegates only to the ipam plugin; remove it'],
  ['delegates', 'it belongs to multus, which lists netplug, not the reverse; remove it'],
  ['subnetFile', 'it belongs to flannel; with host-local write "subnet": "usePodCidr"'],
  ['clusterNetwork', 'it belongs to multus; remove it'],
  ['defaultNetworks', 'it belongs to multus; remove it'],
  ['k8s_auth_token', 'put the token into the file that orch.orchconfig names'],
  ['k8s_client_certificate', 'put the certificate into the file that orch.orchconfig names'],
  ['k8s_client_key', 'put the key into the file that orch.orchconfig names'],
  ['k8s_certificate_authority', 'put the authority into the file that orch.orchconfig names'],
  ['range', 'it belongs to whereabouts; netplug-ipam takes its addresses from IP pools (ipam.ipv4_pools)'],
  ['exclude', 'it belongs to whereabouts; keep addresses out with a resource of kind IPReservation'],
  ['addresses', 'it belongs to the static address manager; ask for an address with cni.netplug/ipAddrs on the pod'],
  ['excludeIPs', 'keep addresses out with a resource of kind IPReservation'],
  ['daemonSocketDir', 'it belongs to another plugin; remove it'],
  ['nodename_file_optional', 'the name that the agent registered is always optional here; remove it'],
  ['windows_use_single_network', 'netplug runs on Linux only; remove it'],
]);

/** Returns netplug's name for a key of a similar plugin, also when the key is misspelled. */
export function ourNameOf(key: string): string | undefined {
  return RENAMED.get(onlyNearMiss(key, [...RENAMED.keys()]) ?? key);
}

/** Returns what to do about a key of another plugin. */
export function adviceOn(key: string): string | undefined {
  return EXPLAINED.get(key);
}
