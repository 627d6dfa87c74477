import { ownValue } from '../../../base/own-value.ts';
import { type Command, command, flagOption, notAllowed, value } from '../command.ts';
import { SOCKET } from '../common-options.ts';
import { BIN_DIR_OPTION, CONF_DIR_OPTION, HEALTH_OPTION } from '../doctor/doctor-commands.ts';
import { diags } from './diags.ts';

const UNIT_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export const DIAGS_COMMAND: Command = command({
  path: ['diags'],
  summary: 'Packs what a bug report needs into one file, without secrets.',
  options: {
    output: value('file', 'path of the archive (default: netplug-diags-NODE-TIME.tar.gz in the working folder)', {
      completes: 'file',
    }),
    force: flagOption('replace an existing file'),
    since: value('time', 'only logs since then: 2h, 3d, or 2026-01-02T03:04:05Z', { read: readSince }),
    confDir: CONF_DIR_OPTION,
    binDir: BIN_DIR_OPTION,
    socket: SOCKET,
    health: HEALTH_OPTION,
  },
  details: `
The archive holds versions, the findings of the doctor, network configurations, logs, the state of the
agent, links, addresses, routes, NAT rules, kernel settings, resources and blocks. Of journals it holds
only names and sizes. Keys, certificates, tokens, passwords and credentials in URLs are redacted.
manifest.json lists the files, and what could not be gathered. Review the archive before you share it.
Run the command as root on the affected node.`,
  examples: ['netplugctl diags', 'netplugctl diags --since 2h --output /tmp/report.tar.gz'],
  run: async (context, { options: { force, since, ...options } }) =>
    diags(context, {
      ...options,
      ifExists: force ? 'replace' : 'refuse',
      sinceMs: since === undefined ? undefined : since(context.ports.clock.now()),
    }),
});

/** Parses a timestamp or an age such as 2h. */
function readSince(text: string): (nowMs: number) => number {
  const [, amount, unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (amount !== undefined) return (nowMs) => nowMs - Number(amount) * (ownValue(UNIT_MS, unit) ?? 0);
  const at = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? notAllowed('Allowed is 30m, 2h, 3d or a time such as 2026-01-02T03:04:05Z.') : () => at;
}
