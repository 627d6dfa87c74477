import { type Command, command, flagOption, notAllowed, unless, value, valueOr } from '../command.ts';
import { OUTPUT } from '../common-options.ts';
import { install } from './install.ts';
import type { ConflistChoice, OrchOptions } from './install-options.ts';
import { BIN_DIR, CONF_DIR, CONF_NAME, LOG_FILE } from '../../../install/places.ts';
import { uninstall } from './uninstall.ts';

const FOLDER = { read: absolutePath, completes: 'folder' } as const;

/** An agent that shuts down may take most of a minute, and so may the datastore. */
const PURGE_SECONDS = 180;

/** What one's own conflist says itself. */
const MADE_BY_OPTIONS = ['name', 'mtu', 'assignIpv6', 'logFile', 'portmap', 'bandwidth', 'policyOrch'];

export const INSTALL_COMMANDS: readonly Command[] = [
  command({
    path: ['install'],
    summary: 'Puts the plugin on this node: executables, kubeconfig, conflist.',
    options: {
      binDir: valueOr('folder', 'where the runtime looks for plugins', { byDefault: BIN_DIR, ...FOLDER }),
      confDir: valueOr('folder', 'where the runtime looks for configurations', { byDefault: CONF_DIR, ...FOLDER }),
      hostConfDir: value('folder', 'where the host sees that folder, if elsewhere', FOLDER),
      confName: valueOr('name', 'name of the conflist', { byDefault: CONF_NAME, read: conflistName }),
      from: value('folder', 'take the executables from here instead of beside the tool', { completes: 'folder' }),
      conf: value('file', 'a conflist of your own', { excludes: MADE_BY_OPTIONS, completes: 'file' }),
      name: valueOr('name', 'name of the network', { byDefault: 'k8s-pod-network', read: networkName }),
      mtu: value('bytes', 'largest packet; left to the kernel unless given', { read: wholeBytes }),
      assignIpv6: flagOption('give pods an IPv6 address too'),
      logFile: valueOr('path', 'log file on the host, or "none"', { byDefault: LOG_FILE, read: absolutePathOrNone }),
      portmap: unless('leave the entry for published ports out'),
      bandwidth: unless('leave the entry for rate limits out'),
      policyOrch: flagOption('read labels and annotations of pods from the orchestrator'),
      orchServer: value('url', 'API of the orchestrator, for the kubeconfig'),
      orchCaFile: value('file', 'root certificates of the API, copied in', { completes: 'file' }),
      orchTokenFile: value('path', 'token file on the host, named in the kubeconfig', { read: absolutePath }),
      orchTokenFrom: value('file', 'file whose token is copied in', { completes: 'file' }),
      orchClientCert: value('path', 'client certificate on the host, named in the kubeconfig', { read: absolutePath }),
      orchClientKey: value('path', 'key of the client certificate, likewise', { read: absolutePath }),
      dryRun: flagOption('show the steps, and do nothing'),
      output: OUTPUT,
    },
    details: `
The conflist is made for the connection of the environment or of --config, with paths as the host
sees them, unless --conf names one. In a pod, the kubeconfig is made from the rights of the pod
unless flags say otherwise. Everything is checked before anything is written; each file changes at
once or not at all, the conflist last. What is as it shall be is left alone. Secrets are not printed.`,
    examples: [
      'KV_ENDPOINTS=http://10.0.0.1:2379 netplugctl install',
      'netplugctl install --conf my.conflist --bin-dir /host/opt/cni/bin --conf-dir /host/etc/cni/net.d \\\n    --host-conf-dir /etc/cni/net.d',
    ],
    run: async (context, { options }) => {
      const { binDir, confDir, hostConfDir, confName, from, dryRun, output } = options;
      const conflist = conflistChoice(options);
      const mode = dryRun ? 'rehearse' : 'carry-out';
      return install(context, {
        binDir,
        confDir,
        hostConfDir,
        confName,
        from,
        conflist,
        orch: given(options),
        mode,
        output,
      });
    },
  }),
  command({
    path: ['uninstall'],
    summary: 'Removes what install put on this node.',
    options: {
      binDir: value('folder', 'where the executables are, if not where they were installed', FOLDER),
      confDir: value('folder', 'where the configuration is, likewise', FOLDER),
      purge: flagOption('remove all that plugin and agent made on this host too'),
      force: flagOption('remove changed and unknown files too, and cut off pods that still run'),
      dryRun: flagOption('say what would be removed, and do nothing'),
      output: OUTPUT,
    },
    details: `
Drain the node first: pods that are still there cannot be taken down without the plugin. Files that
were changed since they were installed stay, and the exit status is then 1. Without --purge nothing
in the datastore changes; "netplugctl ipam check --fix" frees the addresses of pods that are gone.

With --purge the host is afterwards as before netplug. Disable the service of netplug-agent first, or
remove its pod: an agent that runs is ended, but not kept from being started. Removes interfaces of
pods, BIRD, routes, tunnels, nftables tables, state and logs, puts the settings of the host back, and
gives back what the node holds in the datastore. May be repeated.`,
    timeoutSeconds: PURGE_SECONDS,
    examples: ['netplugctl uninstall', 'netplugctl uninstall --purge --dry-run', 'netplugctl uninstall --purge'],
    run: async (context, { options: { binDir, confDir, purge, force, dryRun, output } }) =>
      uninstall(context, {
        binDir,
        confDir,
        changed: force ? 'remove' : 'leave',
        extent: purge ? 'everything' : 'files',
        pods: force ? 'cut-off' : 'refuse',
        mode: dryRun ? 'rehearse' : 'carry-out',
        output,
      }),
  }),
];

interface ConflistFlags {
  readonly conf: string | undefined;
  readonly name: string;
  readonly mtu: number | undefined;
  readonly assignIpv6: boolean;
  /** `none`, or a path. */
  readonly logFile: string;
  readonly portmap: boolean;
  readonly bandwidth: boolean;
  readonly policyOrch: boolean;
}

function conflistChoice(flags: ConflistFlags): ConflistChoice {
  if (flags.conf !== undefined) return { from: 'file', file: flags.conf };
  return {
    from: 'options',
    name: flags.name,
    mtu: flags.mtu,
    assignIpv6: flags.assignIpv6,
    logFilePath: flags.logFile === 'none' ? undefined : flags.logFile,
    chained: (['portmap', 'bandwidth'] as const).filter((type) => flags[type]),
    policy: flags.policyOrch ? 'orch' : 'none',
  };
}

type OrchFlags = { readonly [K in keyof OrchOptions]-?: string | undefined };

/** Only the flags that were given. */
function given({
  orchServer,
  orchCaFile,
  orchTokenFile,
  orchTokenFrom,
  orchClientCert,
  orchClientKey,
}: OrchFlags): OrchOptions {
  return {
    ...(orchServer === undefined ? {} : { orchServer }),
    ...(orchCaFile === undefined ? {} : { orchCaFile }),
    ...(orchTokenFile === undefined ? {} : { orchTokenFile }),
    ...(orchTokenFrom === undefined ? {} : { orchTokenFrom }),
    ...(orchClientCert === undefined ? {} : { orchClientCert }),
    ...(orchClientKey === undefined ? {} : { orchClientKey }),
  };
}

function absolutePath(text: string): string {
  if (!text.startsWith('/')) return notAllowed('Allowed is an absolute path.');
  return text.length > 1 ? text.replace(/\/+$/, '') : text;
}

function absolutePathOrNone(text: string): string {
  return text === 'none' ? text : absolutePath(text);
}

function conflistName(text: string): string {
  const isOne = /^[^/\s.][^/\s]*\.conflist$/.test(text);
  return isOne ? text : notAllowed('Allowed is a file name that ends in .conflist.');
}

/** Stricter than the plugin: runtimes refuse other names before they call it. */
function networkName(text: string): string {
  const isOne = /^[a-z0-9][a-z0-9_.-]*$/i.test(text);
  return isOne ? text : notAllowed('Allowed are letters, digits, ".", "_" and "-", a letter or digit first.');
}

function wholeBytes(text: string): number {
  return /^\d{1,9}$/.test(text) ? Number(text) : notAllowed('Allowed is a whole number of bytes.');
}
