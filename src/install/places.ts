/** Names and folders netplug has on every node. */
export const BIN_DIR = '/opt/cni/bin';
export const CONF_DIR = '/etc/cni/net.d';
export const CONF_NAME = '10-netplug.conflist';
export const LOG_FILE = '/var/log/netplug/cni/cni.log';
export const KUBECONFIG_NAME = 'netplug-kubeconfig';
/** In order of their installation: what runtimes call relies on the first, and is there only while that is. */
export const EXECUTABLE_NAMES = ['netplug-standalone', 'netplug', 'netplug-ipam'] as const;
