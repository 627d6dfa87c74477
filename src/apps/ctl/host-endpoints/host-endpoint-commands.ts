import { isDnsSubdomain } from '../../../model/dns-name.ts';
import { isQualifiedName } from '../../../model/metadata.ts';
import { type Command, command, flagOption, notAllowed, valueOr } from '../command.ts';
import { OUTPUT } from '../common-options.ts';
import { listHostEndpoints } from './list-host-endpoints.ts';
import { migrateHostEndpoints, prepareUpgrade } from './host-endpoint-plans.ts';

const DRY_RUN = flagOption('show the steps, and do nothing');
const LABEL = valueOr('key', 'label that marks host endpoints for the upgrade', {
  byDefault: 'netplug/host-endpoint-upgrade',
  read: labelKey,
});

export const HOST_ENDPOINT_COMMANDS: readonly Command[] = [
  command({
    path: ['host-endpoints', 'list'],
    summary: 'Shows host endpoints, with the node each is on and who made it.',
    options: { allInterfaces: flagOption('only those for all interfaces of their node'), output: OUTPUT },
    examples: ['netplugctl host-endpoints list --all-interfaces'],
    run: async (context, { options: { allInterfaces, output } }) =>
      listHostEndpoints(context, { which: allInterfaces ? 'all-interfaces' : 'all', output }),
  }),
  command({
    path: ['host-endpoints', 'prepare-upgrade'],
    summary: 'Keeps traffic through host endpoints for all interfaces alive over an upgrade from before v3.14.',
    options: {
      dryRun: DRY_RUN,
      undo: flagOption('take it back, after the policies that are needed are there'),
      label: LABEL,
      policy: valueOr('name', 'name of the temporary policy', { byDefault: 'allow-all-upgrade', read: policyName }),
      output: OUTPUT,
    },
    details: `
Before v3.14 such endpoints let everything through when no policy applied; from v3.14 they drop it.
Labels each of them, and creates a GlobalNetworkPolicy for the label that logs and allows what no other
policy decides. Do it before the upgrade, with the tool of the new release: it writes to an older cluster
here without --allow-version-mismatch. After the upgrade, read the logs, write the policies that are missing,
and run it again with --undo. May be repeated: it does what is left, such as for endpoints that came
meanwhile.`,
    examples: [
      'netplugctl host-endpoints prepare-upgrade --dry-run',
      'netplugctl host-endpoints prepare-upgrade',
      'netplugctl host-endpoints prepare-upgrade --undo',
    ],
    run: async (context, { options: { dryRun, undo, label, policy, output } }) =>
      prepareUpgrade(context, {
        direction: undo ? 'undo' : 'prepare',
        names: { label, policy },
        mode: dryRun ? 'rehearse' : 'carry-out',
        output,
      }),
  }),
  command({
    path: ['host-endpoints', 'migrate'],
    summary: 'Replaces host endpoints for all interfaces by automatic ones.',
    options: {
      dryRun: DRY_RUN,
      undo: flagOption('take back what the migration from this machine has changed', {
        excludes: ['force', 'dryRun'],
      }),
      force: flagOption('delete the old ones before the automatic ones are there'),
      label: LABEL,
      output: OUTPUT,
    },
    details: `
Only when every agent is of the new release: older ones drop everything at automatic host endpoints.
Copies the labels of the old ones onto their nodes, turns on
spec.controllers.node.hostEndpoint.autoCreate, and deletes each old one as soon as the automatic one of
its node is there with the same labels. Where the orchestrator keeps the nodes, it names the kubectl
commands for the labels and ends with status 1; run it again after them, as often as something is left.
Refused when a label would be lost because node and endpoints contradict one another. --undo takes back
the changes of the last run from this machine, also of one that was interrupted.`,
    examples: ['netplugctl host-endpoints migrate --dry-run', 'netplugctl host-endpoints migrate'],
    run: async (context, { options: { dryRun, undo, force, label, output } }) =>
      migrateHostEndpoints(context, {
        direction: undo ? 'undo' : 'migrate',
        removal: force ? 'at-once' : 'when-replaced',
        upgradeLabel: label,
        mode: dryRun ? 'rehearse' : 'carry-out',
        output,
      }),
  }),
];

function labelKey(text: string): string {
  return isQualifiedName(text) ? text : notAllowed('Allowed is a label name such as "example.org/name".');
}

function policyName(text: string): string {
  return isDnsSubdomain(text) ? text : notAllowed('Allowed are lower-case letters, digits, "-" and ".".');
}
