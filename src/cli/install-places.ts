/** Names and folders netplug has on every node. */
export const BIN_DIR = '/opt/cni/bin';
export const CONF_DIR = '/etc/cni/net.d';
export const CONF_NAME = '10-netplug.conflist';
export const LOG_FILE = '/var/log/netplug/cni/cni.log';
export const KUBECONFIG_NAME = 'netplug-kubeconfig';
/** The first is what the runtime calls, the second what the first's configuration names. */
export const EXECUTABLE_NAMES = ['netplug', 'netplug-ipam'] as const;
