import { NetplugError } from '../../../../base/errors.ts';
import { type Command, command, flagOption, mandatory, notAllowed, one, value } from '../../command.ts';
import { confirmMode } from '../../cluster/confirm.ts';
import { OUTPUT } from '../../common-options.ts';
import { applyFleet, UPGRADE_SECONDS } from './apply-fleet.ts';
import { READ_SECONDS } from './read-clusters.ts';
import { showFleetPlan, showFleetPreflight } from './show-fleet.ts';

/** A week: timers of Node last 24 days at most. */
const MOST_SECONDS = 604_800;
const ACTIONS = ['plan', 'preflight', 'apply'] as const;
type Action = (typeof ACTIONS)[number];

export const FLEET_COMMANDS: readonly Command[] = [
  command({
    path: ['upgrade', 'fleet'],
    summary: 'Plans, checks or carries out the upgrades of several clusters, in waves.',
    arguments: [one('action', 'plan, preflight or apply', { read: readAction, completes: ACTIONS })],
    options: {
      file: mandatory(
        value('file', 'waves of clusters as YAML, or "-" for standard input', { short: 'f', completes: 'file' }),
      ),
      output: OUTPUT,
      through: value('wave', 'apply: end after this wave'),
      clusterTimeout: value(
        'seconds',
        `longest time for one cluster (default: ${String(READ_SECONDS)} to read it, ${String(UPGRADE_SECONDS)} to upgrade it); --timeout limits all`,
        { read: readSeconds },
      ),
      yes: flagOption('apply: do not ask for confirmation', { excludes: ['dryRun'] }),
      dryRun: flagOption('apply: show the state of the clusters, and change nothing'),
    },
    details: `
plan shows the state of every cluster and its steps; preflight shows the hazards. Neither changes anything.
apply begins a wave when every cluster of the wave before is verified, and nothing blocks the upgrade of its
own clusters. When a cluster fails, those of its wave that are under way are carried to their end, and no
further cluster is begun.

Progress goes to standard error, each line with the name of its cluster; the
result of every cluster goes to standard output. Nothing is remembered between calls: repeated, apply skips
clusters that have the release and were verified, and goes on with the others.
The exit status is 1 if a cluster cannot be read, a hazard blocks (preflight), or a cluster is not at the
release and verified at the end (apply).`,
    examples: [
      'netplugctl upgrade fleet preflight -f examples/fleet.yaml',
      'netplugctl upgrade fleet apply -f examples/fleet.yaml --through pilot',
      'netplugctl upgrade fleet apply -f examples/fleet.yaml --yes -o json',
    ],
    run: async (context, { args: [action], options: { file = '', output, ...given } }) => {
      const { through, clusterTimeout, yes, dryRun } = given;
      if (action === 'apply') {
        const mode = confirmMode({ dryRun, yes });
        return applyFleet(context, { file, output, through, clusterTimeout, mode });
      }
      refuseOptions(action, given);
      return action === 'plan'
        ? showFleetPlan(context, { file, output, clusterTimeout })
        : showFleetPreflight(context, { file, output, clusterTimeout });
    },
  }),
];

/** Ignored, they would seem to have had an effect. @throws cli/usage */
function refuseOptions(
  action: Action,
  given: {
    readonly through: string | undefined;
    readonly yes: boolean;
    readonly dryRun: boolean;
  },
): void {
  const flags = {
    '--through': given.through !== undefined,
    '--yes': given.yes,
    '--dry-run': given.dryRun,
  };
  const [flag] = Object.entries(flags).flatMap(([name, isGiven]) => (isGiven ? [name] : []));
  if (flag === undefined) return;
  throw new NetplugError('cli/usage', `Cannot use ${flag} with "${action}": it is an option of "apply"`, {
    hint: `Leave it out: "${action}" changes nothing`,
  });
}

function readAction(text: string): Action {
  return ACTIONS.find((action) => action === text) ?? notAllowed(`Allowed is ${ACTIONS.join(', ')}.`);
}

function readSeconds(text: string): number {
  const seconds = /^\d{1,7}$/.test(text) ? Number(text) : 0;
  if (seconds > 0 && seconds <= MOST_SECONDS) return seconds;
  return notAllowed(`Allowed is a whole number of seconds from 1 to ${String(MOST_SECONDS)}.`);
}
