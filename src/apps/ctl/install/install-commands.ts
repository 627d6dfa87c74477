import {
  type Command,
  command,
  flagOption,
  notAllowed,
  numberLike,
  type OptionValues,
  textLike,
  unless,
  value,
  valueOr,
} from '../command.ts';
import { OUTPUT } from '../common-options.ts';
import { install } from './install.ts';
import type { ConflistChoice } from './install-options.ts';
import { BIN_DIR, CONF_DIR, CONF_NAME, LOG_FILE } from '../../../install/places.ts';
import { uninstall } from './uninstall.ts';

const FOLDER = { read: absolutePath, completes: 'folder' } as const;

/** A busy node takes long to write the executables. */
const INSTALL_SECONDS = 300;
/** The agent may take most of a minute to shut down, and so may the datastore. */
const PURGE_SECONDS = 180;

const conflistName = textLike(/^[^/\s.][^/\s]*\.conflist$/, 'Allowed is a file name that ends in .conflist.');
/** Stricter than the plugin, because runtimes refuse other names before they call it. */
const networkName = textLike(
  /^[a-z0-9][a-z0-9_.-]*$/i,
  'Allowed are letters, digits, ".", "_" and "-"; the first must be a letter or digit.',
);
const wholeBytes = numberLike(/^\d{1,9}$/, 'Allowed is a whole number of bytes.');

/** Options for a conflist, which a conflist of the user excludes. */
const MADE_BY_OPTIONS = {
  name: valueOr('name', 'name of the network', { byDefault: 'k8s-pod-network', read: networkName }),
  mtu: value('bytes', 'MTU of pod interfaces (default: chosen by the kernel)', { read: wholeBytes }),
  assignIpv6: flagOption('assign an IPv6 address to pods as well'),
  logFile: valueOr('path', 'log file on the host, or "none"', { byDefault: LOG_FILE, read: absolutePathOrNone }),
  portmap: unless('omit the portmap plugin'),
  bandwidth: unless('omit the bandwidth plugin'),
  chainedPlugins: value('file', 'JSON file with an array of further entries of the list (not supported)', {
    completes: 'file',
  }),
  policyOrch: flagOption('read labels and annotations of pods from the orchestrator'),
};

export const INSTALL_COMMANDS: readonly Command[] = [
  command({
    path: ['node', 'install'],
    summary: 'Installs the plugin on this node: executables, kubeconfig, conflist.',
    options: {
      binDir: valueOr('folder', 'folder in which the runtime finds plugins', { byDefault: BIN_DIR, ...FOLDER }),
      confDir: valueOr('folder', 'folder in which the runtime finds configurations', {
        byDefault: CONF_DIR,
        ...FOLDER,
      }),
      hostConfDir: value('folder', 'path of that folder on the host, if it differs', FOLDER),
      confName: valueOr('name', 'name of the conflist', { byDefault: CONF_NAME, read: conflistName }),
      from: value('folder', 'folder of the executables to install (default: that of the tool)', {
        completes: 'folder',
      }),
      executablesOnly: flagOption('install no kubeconfig and no conflist, and run the installed program once'),
      proveOnHost: flagOption('run it in the mount namespace of process 1, from a pod with hostPID'),
      conf: value('file', 'install this conflist', { excludes: Object.keys(MADE_BY_OPTIONS), completes: 'file' }),
      ...MADE_BY_OPTIONS,
      orchServer: value('url', 'URL of the API of the orchestrator'),
      orchCaFile: value('file', 'root certificates of the API, copied into the kubeconfig', { completes: 'file' }),
      orchTokenFile: value('path', 'token file on the host, to which the kubeconfig refers', { read: absolutePath }),
      orchTokenFrom: value('file', 'file whose token is copied into the kubeconfig', { completes: 'file' }),
      orchClientCert: value('path', 'client certificate on the host, to which the kubeconfig refers', {
        read: absolutePath,
      }),
      orchClientKey: value('path', 'key of the client certificate, to which the kubeconfig refers', {
        read: absolutePath,
      }),
      dryRun: flagOption('show the steps without carrying them out'),
      output: OUTPUT,
    },
    details: `
The conflist is generated for the connection of the environment or of --config, with paths on the host,
unless --conf is given. In a pod, the kubeconfig is made from the service account of the pod unless flags
are given. Everything is checked before the first write. Each file is replaced atomically, the conflist
last. The command is idempotent and prints no secrets.

With --executables-only the agent installs conflist and kubeconfig later, when the node can serve pods.
netplug-standalone is run before it replaces the installed one: with --prove-on-host as the host runs it.`,
    examples: [
      'KV_ENDPOINTS=http://10.0.0.1:2379 netplugctl node install',
      'netplugctl node install --conf my.conflist --bin-dir /host/opt/cni/bin --conf-dir /host/etc/cni/net.d \\\n    --host-conf-dir /etc/cni/net.d',
      'netplugctl node install --executables-only --prove-on-host',
    ],
    timeoutSeconds: INSTALL_SECONDS,
    run: async (context, { options }) => {
      const { executablesOnly, proveOnHost, dryRun } = options;
      return install(context, {
        ...options,
        extent: executablesOnly ? 'executables' : 'everything',
        prove: proveOnHost ? 'host' : executablesOnly ? 'own-namespace' : undefined,
        conflist: conflistChoice(options),
        orch: options,
        mode: dryRun ? 'dry-run' : 'apply',
      });
    },
  }),
  command({
    path: ['node', 'uninstall'],
    summary: 'Removes the plugin from this node.',
    options: {
      binDir: value('folder', 'folder of the executables, if it has moved since the installation', FOLDER),
      confDir: value('folder', 'folder of the configuration, if it has moved since the installation', FOLDER),
      purge: flagOption('also remove everything that plugin and agent created on this host'),
      force: flagOption('also remove changed and unknown files, and the interfaces of running pods'),
      dryRun: flagOption('print what would be removed, and change nothing'),
      output: OUTPUT,
    },
    details: `
Drain the node first: without the plugin, the runtime cannot remove running pods. Files that were changed
after the installation stay, and the exit status is then 1. Without --purge the datastore is not changed;
"netplugctl ipam check --fix" releases the addresses of removed pods.

--purge restores the host to its state before netplug. Disable the service of netplug-agent or remove its
pod first: the command stops a running agent but does not prevent its restart. It removes interfaces of
pods, BIRD, routes, tunnels, nftables tables, state and logs, restores the settings of the host, and
removes the records of the node in the datastore. The command is idempotent.`,
    timeoutSeconds: PURGE_SECONDS,
    examples: [
      'netplugctl node uninstall',
      'netplugctl node uninstall --purge --dry-run',
      'netplugctl node uninstall --purge',
    ],
    run: async (context, { options: { purge, force, dryRun, ...rest } }) =>
      uninstall(context, {
        ...rest,
        changed: force ? 'remove' : 'leave',
        extent: purge ? 'everything' : 'files',
        pods: force ? 'cut-off' : 'refuse',
        mode: dryRun ? 'dry-run' : 'apply',
      }),
  }),
];

function conflistChoice(
  flags: OptionValues<typeof MADE_BY_OPTIONS> & { readonly conf: string | undefined },
): ConflistChoice {
  if (flags.conf !== undefined) return { from: 'file', file: flags.conf };
  return {
    from: 'options',
    name: flags.name,
    mtu: flags.mtu,
    assignIpv6: flags.assignIpv6,
    logFilePath: flags.logFile === 'none' ? undefined : flags.logFile,
    chained: (['portmap', 'bandwidth'] as const).filter((type) => flags[type]),
    chainedPlugins: flags.chainedPlugins,
    policy: flags.policyOrch ? 'orch' : 'none',
  };
}

function absolutePath(text: string): string {
  if (!text.startsWith('/')) return notAllowed('Allowed is an absolute path.');
  return text.length > 1 ? text.replace(/\/+$/, '') : text;
}

function absolutePathOrNone(text: string): string {
  return text === 'none' ? text : absolutePath(text);
}
