import { type Command, command, flagOption, notAllowed, value } from '../command.ts';
import { SOCKET } from '../common-options.ts';
import { BIN_DIR_OPTION, CONF_DIR_OPTION, HEALTH_OPTION } from '../doctor/doctor-commands.ts';
import { diags } from './diags.ts';

const UNIT_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export const DIAGS_COMMAND: Command = command({
  path: ['diags'],
  summary: 'Packs what a bug report needs into one file, without secrets.',
  options: {
    output: value('file', 'where it goes (default: netplug-diags-NODE-TIME.tar.gz here)', { completes: 'file' }),
    force: flagOption('replace a file that is there'),
    since: value('time', 'logs from then on: 2h, 3d, or 2026-01-02T03:04:05Z', { read: readSince }),
    confDir: CONF_DIR_OPTION,
    binDir: BIN_DIR_OPTION,
    socket: SOCKET,
    health: HEALTH_OPTION,
  },
  details: `
Versions, what the doctor finds, network configurations, logs, what the agent says, links, addresses,
routes and translation, settings of the kernel, resources and blocks; names and sizes of journals only.
Keys, certificates, tokens, passwords and what stands in URLs before the host are taken out. What
could not be had is in manifest.json, beside a list of what is there. Look through it before you pass it on.

Run it as root on the node the report is about.`,
  examples: ['netplugctl diags', 'netplugctl diags --since 2h --output /tmp/report.tar.gz'],
  run: async (context, { options: { force, since, ...options } }) =>
    diags(context, {
      ...options,
      ifExists: force ? 'replace' : 'refuse',
      sinceMs: since === undefined ? undefined : since(context.ports.clock.now()),
    }),
});

/** A time, which may be so long ago. */
function readSince(text: string): (nowMs: number) => number {
  const [, amount, unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (amount !== undefined) return (nowMs) => nowMs - Number(amount) * (UNIT_MS[unit] ?? 0);
  const at = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? notAllowed('Allowed is 30m, 2h, 3d or a time such as 2026-01-02T03:04:05Z.') : () => at;
}
