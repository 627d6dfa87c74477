import { confirmMode } from '../cluster/confirm.ts';
import { type Command, command, flagOption, unless, values } from '../command.ts';
import { fanOutWord } from '../../../model/typha.ts';
import { PREFLIGHT_CHECKS } from '../../../upgrade/cluster/checks/preflight.ts';
import { OUTPUT } from '../common-options.ts';
import { switchFanOut } from './switch-fan-out.ts';
import { typhaStatus } from './typha-status.ts';

const BY_METHOD = `With operator or chart, the command
sets spec.typha.mode of the Installation and waits; with a manifest it plans, backs up and carries out as
"upgrade apply" does, within the release of this tool. Edits of a manifest that the cluster does not show:
"upgrade apply --like".`;

export const TYPHA_COMMANDS: readonly Command[] = [
  command({
    path: ['typha', 'status'],
    summary: 'Shows the servers of netplug-typha, and how many agents each serves.',
    options: { output: OUTPUT },
    details: `
Reads the Leases in which servers say every ten seconds where they are and whom they serve. A server that
has lost the API server does not renew its Lease. Which server a node has: "netplugctl node status".

The exit status is 1 if no server serves.`,
    examples: ['netplugctl typha status', 'netplugctl typha status -o json'],
    run: async (context, { options: { output } }) => typhaStatus(context, { output }),
  }),
  ...(['Enabled', 'Disabled'] as const).map((typha) => {
    const word = fanOutWord(typha);
    return command({
      path: ['cluster', 'typha', word],
      summary:
        typha === 'Enabled'
          ? 'Has agents follow the servers of netplug-typha in place of the API server.'
          : 'Has agents follow the API server again, and removes netplug-typha.',
      options: {
        accept: values(
          'check',
          'with a manifest, go on although this check of an upgrade has found a hazard; may be repeated',
          {
            completes: PREFLIGHT_CHECKS.map(({ id }) => id),
          },
        ),
        proof: unless('do not start pods that prove the network or watch packets'),
        yes: flagOption('do not ask for confirmation', { excludes: ['dryRun'] }),
        dryRun: flagOption('show what would change, and change nothing'),
      },
      details:
        typha === 'Enabled'
          ? `
Servers and rights come first, then agents change node by node, and then they lose the right to follow the
API for what servers tell them. Running pods notice nothing. ${BY_METHOD}`
          : `
The way out when servers do harm: agents get the right to follow the API first, then they change node by
node, and servers go when no agent uses them. No server has to work for that, and running pods notice
nothing. ${BY_METHOD}`,
      examples: [`netplugctl cluster typha ${word} --dry-run`, `netplugctl cluster typha ${word} --yes`],
      timeoutSeconds: 3600,
      run: async (context, { options: { accept, proof, yes, dryRun } }) =>
        switchFanOut(context, {
          typha,
          accept,
          proof: proof ? 'run' : 'skip',
          mode: confirmMode({ dryRun, yes }),
        }),
    });
  }),
];
