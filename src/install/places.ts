/** Names and folders of netplug on a node. */
export const BIN_DIR = '/opt/cni/bin';
export const CONF_DIR = '/etc/cni/net.d';
export const CONF_NAME = '10-netplug.conflist';
export const LOG_FILE = '/var/log/netplug/cni/cni.log';
export const KUBECONFIG_NAME = 'netplug-kubeconfig';
/** In the order of installation: the plugins need netplug-standalone, so it is installed first and removed last. */
export const EXECUTABLE_NAMES = ['netplug-standalone', 'netplug', 'netplug-ipam'] as const;
