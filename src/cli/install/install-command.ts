import { type Command, InvalidArgumentError, Option } from 'commander';
import { INSTALL_HELP, UNINSTALL_HELP } from '../help-texts.ts';
import type { ConflistChoice, OrchOptions } from './install-job.ts';
import { BIN_DIR, CONF_DIR, CONF_NAME, LOG_FILE } from './install-places.ts';
import { type Job, type Output, OUTPUTS } from '../job.ts';

interface Flags extends OrchOptions {
  readonly binDir: string;
  readonly confDir: string;
  readonly hostConfDir?: string;
  readonly confName: string;
  readonly conf?: string;
  readonly from?: string;
  readonly name: string;
  readonly mtu?: number;
  readonly assignIpv6?: true;
  /** `none`, or a path. */
  readonly logFile: string;
  readonly portmap: boolean;
  readonly bandwidth: boolean;
  readonly policyOrch?: true;
  readonly output: Output;
}

/** What one's own conflist says itself. */
const MADE_BY_OPTIONS = ['name', 'mtu', 'assignIpv6', 'logFile', 'portmap', 'bandwidth', 'policyOrch'];

/** Adds `install` and `uninstall`. */
export function addInstall(program: Command, choose: (job: Job) => void): void {
  program
    .command('install')
    .description('Puts the plugin on this node: executables, kubeconfig, conflist.')
    .option('--bin-dir <folder>', 'where the runtime looks for plugins', absolutePath, BIN_DIR)
    .option('--conf-dir <folder>', 'where the runtime looks for configurations', absolutePath, CONF_DIR)
    .option('--host-conf-dir <folder>', 'where the host sees that folder, if elsewhere', absolutePath)
    .option('--conf-name <name>', 'name of the conflist', conflistName, CONF_NAME)
    .option('--from <folder>', 'take the executables from here instead of beside the tool')
    .addOption(new Option('--conf <file>', 'a conflist of your own').conflicts(MADE_BY_OPTIONS))
    .option('--name <name>', 'name of the network', networkName, 'k8s-pod-network')
    .option('--mtu <bytes>', 'largest packet; left to the kernel unless given', wholeNumber)
    .option('--assign-ipv6', 'give pods an IPv6 address too')
    .option('--log-file <path>', 'log file on the host, or "none"', absolutePathOrNone, LOG_FILE)
    .option('--no-portmap', 'leave the entry for published ports out')
    .option('--no-bandwidth', 'leave the entry for rate limits out')
    .option('--policy-orch', 'read labels and annotations of pods from the orchestrator')
    .option('--orch-server <url>', 'API of the orchestrator, for the kubeconfig')
    .option('--orch-ca-file <file>', 'root certificates of the API, copied in')
    .option('--orch-token-file <path>', 'token file on the host, named in the kubeconfig', absolutePath)
    .option('--orch-token-from <file>', 'file whose token is copied in')
    .option('--orch-client-cert <path>', 'client certificate on the host, named in the kubeconfig', absolutePath)
    .option('--orch-client-key <path>', 'key of the client certificate, likewise', absolutePath)
    .addOption(outputOption())
    .addHelpText('after', INSTALL_HELP)
    .action((flags: Flags) => {
      const { binDir, confDir, hostConfDir, confName, from, output } = flags;
      const conflist = conflistChoice(flags);
      const orch = orchOptions(flags);
      choose({ verb: 'install', binDir, confDir, hostConfDir, confName, from, conflist, orch, output });
    });
  program
    .command('uninstall')
    .description('Removes what install put on this node.')
    .option('--bin-dir <folder>', 'where the executables are, if not where they were installed', absolutePath)
    .option('--conf-dir <folder>', 'where the configuration is, likewise', absolutePath)
    .option('--purge', 'remove interfaces of pods, state and logs too')
    .option('--force', 'remove files that were changed since, or that no record knows, too')
    .addOption(outputOption())
    .addHelpText('after', UNINSTALL_HELP)
    .action((flags: { binDir?: string; confDir?: string; purge?: true; force?: true; output: Output }) => {
      const { binDir, confDir, purge, force, output } = flags;
      const changed = force === true ? 'remove' : 'leave';
      const extent = purge === true ? 'everything' : 'files';
      choose({ verb: 'uninstall', binDir, confDir, changed, extent, output });
    });
}

function conflistChoice(flags: Flags): ConflistChoice {
  if (flags.conf !== undefined) return { from: 'file', file: flags.conf };
  return {
    from: 'options',
    name: flags.name,
    mtu: flags.mtu,
    assignIpv6: flags.assignIpv6 === true,
    logFilePath: flags.logFile === 'none' ? undefined : flags.logFile,
    chained: (['portmap', 'bandwidth'] as const).filter((type) => flags[type]),
    policy: flags.policyOrch === true ? 'orch' : 'none',
  };
}

/** Only the flags that were given. */
function orchOptions(flags: Flags): OrchOptions {
  const { orchServer, orchCaFile, orchTokenFile, orchTokenFrom, orchClientCert, orchClientKey } = flags;
  return {
    ...(orchServer === undefined ? {} : { orchServer }),
    ...(orchCaFile === undefined ? {} : { orchCaFile }),
    ...(orchTokenFile === undefined ? {} : { orchTokenFile }),
    ...(orchTokenFrom === undefined ? {} : { orchTokenFrom }),
    ...(orchClientCert === undefined ? {} : { orchClientCert }),
    ...(orchClientKey === undefined ? {} : { orchClientKey }),
  };
}

function outputOption(): Option {
  return new Option('-o, --output <format>', 'form of the answer').choices(OUTPUTS).default('table');
}

function absolutePath(text: string): string {
  if (text.startsWith('/')) return text.length > 1 ? text.replace(/\/+$/, '') : text;
  throw new InvalidArgumentError('Allowed is an absolute path.');
}

function absolutePathOrNone(text: string): string {
  return text === 'none' ? text : absolutePath(text);
}

function conflistName(text: string): string {
  if (/^[^/\s.][^/\s]*\.conflist$/.test(text)) return text;
  throw new InvalidArgumentError('Allowed is a file name that ends in .conflist.');
}

/** Stricter than the plugin: runtimes refuse other names before they call it. */
function networkName(text: string): string {
  if (/^[a-z0-9][a-z0-9_.-]*$/i.test(text)) return text;
  throw new InvalidArgumentError('Allowed are letters, digits, ".", "_" and "-", a letter or digit first.');
}

function wholeNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Allowed is a whole number of bytes.');
}
