import { isDnsSubdomain } from '../../../model/dns-name.ts';
import { isQualifiedName } from '../../../model/metadata.ts';
import { type Command, command, flagOption, textLike, valueOr } from '../command.ts';
import { OUTPUT } from '../common-options.ts';
import { listHostEndpoints } from './list-host-endpoints.ts';
import { migrateHostEndpoints, prepareUpgrade } from './host-endpoint-plans.ts';

const DRY_RUN = flagOption('show the steps without carrying them out');
const LABEL = valueOr('key', 'label that marks host endpoints for the upgrade', {
  byDefault: 'netplug/host-endpoint-upgrade',
  read: textLike({ test: isQualifiedName }, 'Allowed is a label name such as "example.org/name".'),
});

export const HOST_ENDPOINT_COMMANDS: readonly Command[] = [
  command({
    path: ['host-endpoints', 'list'],
    summary: 'Shows host endpoints with their nodes and creators.',
    options: { allInterfaces: flagOption('only those for all interfaces of their node'), output: OUTPUT },
    examples: ['netplugctl host-endpoints list --all-interfaces'],
    run: async (context, { options: { allInterfaces, output } }) =>
      listHostEndpoints(context, { which: allInterfaces ? 'all-interfaces' : 'all', output }),
  }),
  command({
    path: ['host-endpoints', 'prepare-upgrade'],
    summary: 'Keeps traffic through host endpoints for all interfaces flowing in an upgrade from before v3.14.',
    options: {
      dryRun: DRY_RUN,
      undo: flagOption('undo it once the required policies exist'),
      label: LABEL,
      policy: valueOr('name', 'name of the temporary policy', {
        byDefault: 'allow-all-upgrade',
        read: textLike({ test: isDnsSubdomain }, 'Allowed are lower-case letters, digits, "-" and ".".'),
      }),
      output: OUTPUT,
    },
    details: `
Before v3.14 such endpoints allow all traffic that no policy selects; from v3.14 they drop it. The
command labels each of them, and creates a GlobalNetworkPolicy for the label that logs and allows traffic
that no other policy selects. Run it before the upgrade, with the tool of the new release: this command
writes to an older cluster without --allow-version-mismatch. After the upgrade, read the logs, write the
missing policies, and run it again with --undo. Repeating the command carries out the remaining steps,
for example for new endpoints.`,
    examples: [
      'netplugctl host-endpoints prepare-upgrade --dry-run',
      'netplugctl host-endpoints prepare-upgrade',
      'netplugctl host-endpoints prepare-upgrade --undo',
    ],
    run: async (context, { options: { dryRun, undo, label, policy, output } }) =>
      prepareUpgrade(context, {
        direction: undo ? 'undo' : 'prepare',
        names: { label, policy },
        mode: dryRun ? 'dry-run' : 'apply',
        output,
      }),
  }),
  command({
    path: ['host-endpoints', 'migrate'],
    summary: 'Replaces host endpoints for all interfaces by automatic ones.',
    options: {
      dryRun: DRY_RUN,
      undo: flagOption('undo the changes of the migration from this machine', {
        excludes: ['force', 'dryRun'],
      }),
      force: flagOption('delete the old endpoints before the automatic ones exist'),
      label: LABEL,
      output: OUTPUT,
    },
    details: `
Run it only when every agent has the new release: older agents drop all traffic of automatic host
endpoints. The command copies the labels of the old endpoints to their nodes, sets
spec.controllers.node.hostEndpoint.autoCreate, and deletes each old endpoint as soon as the automatic
endpoint of its node exists with the same labels.

When the orchestrator manages the nodes, the command
prints the kubectl commands for the labels and exits with status 1; run these, then repeat it until it
exits with 0. It is refused when a label would be lost because node and endpoints contradict each
other. --undo reverts the changes of the last run from this machine, even of an interrupted one.`,
    examples: ['netplugctl host-endpoints migrate --dry-run', 'netplugctl host-endpoints migrate'],
    run: async (context, { options: { dryRun, undo, force, label, output } }) =>
      migrateHostEndpoints(context, {
        direction: undo ? 'undo' : 'migrate',
        removal: force ? 'at-once' : 'when-replaced',
        upgradeLabel: label,
        mode: dryRun ? 'dry-run' : 'apply',
        output,
      }),
  }),
];
