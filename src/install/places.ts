/** Names and folders of netplug on a node. */
export const BIN_DIR = '/opt/cni/bin';
export const CONF_DIR = '/etc/cni/net.d';
export const CONF_NAME = '10-netplug.conflist';
export const LOG_FILE = '/var/log/netplug/cni/cni.log';
export const KUBECONFIG_NAME = 'netplug-kubeconfig';
/** In the conflist that all nodes share: the agent of each node puts the name of its node there. */
export const NODE_NAME_PLACEHOLDER = '__KUBERNETES_NODE_NAME__';
/** In the order of installation: the plugins need netplug-standalone, so it is installed first and removed last. */
export const EXECUTABLE_NAMES = ['netplug-standalone', 'netplug', 'netplug-ipam'] as const;
/** The executable that is run before it is installed: the others are static, or need it. */
export const PROVEN_NAME = 'netplug-standalone';
/** Plugins of the CNI project that networks of netplug use. */
export const STANDARD_PLUGINS = ['portmap', 'bandwidth', 'host-local', 'loopback'] as const;
