import { PREFLIGHT_CHECKS } from '../../../upgrade/cluster/checks/preflight.ts';
import { UPGRADE_METHODS, type UpgradeMethod } from '../../../upgrade/cluster/snapshot.ts';
import { confirmMode } from '../cluster/confirm.ts';
import { REGISTRY_OPTION } from '../cluster/manifest-commands.ts';
import { choice, type Command, command, flagOption, notAllowed, unless, value, valueOr, values } from '../command.ts';
import { OUTPUT } from '../common-options.ts';
import { applyUpgrade, backUp, verifyUpgrade } from './apply-upgrade.ts';
import { showPreflight, showUpgradePlan } from './plan-and-preflight.ts';
import { rollBack } from './rollback.ts';
import { upgradeSidecars } from './sidecars/upgrade-sidecars.ts';

/** A roll-out goes from node to node. */
const UPGRADE_SECONDS = 3600;
const READ_SECONDS = 120;
/** Each roll-out has a limit of its own. */
const SIDECAR_SECONDS = 86_400;
const MOST_AT_ONCE = 100;

const TARGET_OPTIONS = {
  method: value<UpgradeMethod>('method', 'upgrade by this method: operator, chart or manifest (default: found out)', {
    read: readMethod,
    completes: UPGRADE_METHODS,
  }),
  registry: REGISTRY_OPTION,
  like: value('file', 'make the edits of this earlier manifest again', { completes: 'file' }),
  pristine: value('file', 'unedited manifest of the release of --like', { completes: 'file' }),
};
const FROM = value('file', 'use a saved snapshot instead of the cluster', { completes: 'file' });
const YES = flagOption('do not ask for confirmation', { excludes: ['dryRun'] });
const PROOF = unless('do not start pods that prove the network or watch packets');

function readMethod(text: string): UpgradeMethod {
  return UPGRADE_METHODS.find((method) => method === text) ?? notAllowed(`Allowed is ${UPGRADE_METHODS.join(', ')}.`);
}

function readCount(text: string): number {
  const count = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  return count >= 1 && count <= MOST_AT_ONCE ? count : notAllowed(`Allowed is 1 to ${String(MOST_AT_ONCE)}.`);
}

export const UPGRADE_COMMANDS: readonly Command[] = [
  command({
    path: ['upgrade', 'plan'],
    summary: 'Shows every step of an upgrade of the cluster to the release of this tool.',
    options: {
      save: value('file', 'save what the plan was made from', { completes: 'file' }),
      from: FROM,
      files: value('folder', 'write manifests and chart of the release into this folder', { completes: 'folder' }),
      ...TARGET_OPTIONS,
      output: OUTPUT,
    },
    details: `
The plan depends on how netplug was installed: by the operator, by the chart, or by manifest with its
variant and datastore. Each step shows its objects, the commands that a person would type instead, what
does not work meanwhile, and what cannot be undone. Steps that are done are marked so. Nothing is changed.
The target has the settings of the cluster; --like repeats edits that the cluster does not show.`,
    examples: [
      'netplugctl upgrade plan',
      'netplugctl upgrade plan --save snapshot.json',
      'netplugctl upgrade plan --from snapshot.json -o json',
    ],
    timeoutSeconds: READ_SECONDS,
    run: async (context, { options }) => showUpgradePlan(context, options),
  }),
  command({
    path: ['upgrade', 'preflight'],
    summary: 'Looks for hazards to an upgrade of the cluster.',
    options: {
      from: FROM,
      ...TARGET_OPTIONS,
      output: choice('format', 'output format', { short: 'o', choices: ['text', 'json', 'sarif'] }),
    },
    details: `
Each hazard has a severity, the objects by name, and a remedy. The command applies every object of
the target with a server-side dry run and lists the fields that other field managers would lose. The exit
status is 1 if a hazard blocks the upgrade.`,
    examples: ['netplugctl upgrade preflight', 'netplugctl upgrade preflight -o sarif > preflight.sarif'],
    timeoutSeconds: READ_SECONDS,
    run: async (context, { options }) => showPreflight(context, options),
  }),
  command({
    path: ['upgrade', 'backup'],
    summary: 'Backs up what a rollback needs, or checks a backup.',
    options: {
      to: value('folder', 'new folder for the backup', { completes: 'folder', excludes: ['check'] }),
      check: value('folder', 'check this backup and change nothing', { completes: 'folder' }),
    },
    details: `
The folder holds the objects of netplug as the API has them, the records of helm, all records of the
datastore, a snapshot and checksums. It also holds certificates, so only its owner can read it. The
datastore is not locked.`,
    examples: ['netplugctl upgrade backup --to before-v3.27', 'netplugctl upgrade backup --check before-v3.27'],
    timeoutSeconds: READ_SECONDS,
    run: async (context, { options }) => backUp(context, options),
  }),
  command({
    path: ['upgrade', 'apply'],
    summary: 'Upgrades the cluster to the release of this tool.',
    options: {
      accept: values('check', 'go on although this check has found a hazard; may be repeated', {
        completes: PREFLIGHT_CHECKS.map(({ id }) => id),
      }),
      with: values('step', 'carry out this optional step as well; may be repeated'),
      backup: value('folder', 'folder for the backup (default: below the state of netplug on this machine)', {
        completes: 'folder',
      }),
      ...TARGET_OPTIONS,
      proof: PROOF,
      yes: YES,
      dryRun: flagOption('show hazards and plan, and change nothing'),
    },
    details: `
The command runs the preflight, backs up, and carries out the plan step by step. One node gets the new
agent first, and proves its network with nodes of the old release before any other node follows: pods,
Services, DNS, policy, MTU and addresses. Pods on the nodes send each other datagrams until the end, small
ones and some that fill a packet; one that is lost stops the upgrade, as does a step that fails. Repeated after an interruption, the command goes on
where it was.`,
    examples: [
      'netplugctl upgrade apply --dry-run',
      'netplugctl upgrade apply --yes',
      'netplugctl upgrade apply --accept nodes/not-ready --yes',
    ],
    timeoutSeconds: UPGRADE_SECONDS,
    run: async (context, { options: { proof, yes, dryRun, ...options } }) =>
      applyUpgrade(context, {
        ...options,
        proof: proof ? 'run' : 'skip',
        mode: confirmMode({ dryRun, yes }),
      }),
  }),
  command({
    path: ['upgrade', 'verify'],
    summary: 'Verifies that the cluster has the release of this tool.',
    options: { proof: PROOF, output: OUTPUT },
    details: `
Checks releases of workloads and pods, roll-outs, ready counts against what the manifests contain, the
version of the cluster, and records; then pods on every node prove the network as in "upgrade apply". The
exit status is 1 if a check fails.`,
    examples: ['netplugctl upgrade verify'],
    timeoutSeconds: 900,
    run: async (context, { options: { proof, output } }) =>
      verifyUpgrade(context, { output, proof: proof ? 'run' : 'skip' }),
  }),
  command({
    path: ['upgrade', 'sidecars'],
    summary: 'Restarts the workloads whose pods have a netplug-sidecar of an earlier release.',
    options: {
      namespace: value('namespace', 'only workloads of this namespace', { short: 'n' }),
      atOnce: valueOr('number', 'number of workloads that are restarted at the same time', {
        byDefault: 1,
        read: readCount,
      }),
      yes: YES,
      dryRun: flagOption('show which workloads are restarted, and change nothing'),
    },
    details: `
The last step of an upgrade, after the agents and the injection template of the mesh: the command refuses
while an agent is older than this release, or the template names another one. It restarts Deployments,
StatefulSets and DaemonSets as "kubectl rollout restart" does, and waits until each is rolled out and all its
pods are ready with the new sidecar. Workloads that it cannot restart are listed, with the reason, and so are
those whose image names no release. It stops at the first that fails, when those that are under way have
ended; repeated, it goes on from what the pods show.`,
    examples: [
      'netplugctl upgrade sidecars --dry-run',
      'netplugctl upgrade sidecars --namespace shop --yes',
      'netplugctl upgrade sidecars --at-once 4 --yes',
    ],
    timeoutSeconds: SIDECAR_SECONDS,
    run: async (context, { options: { namespace, atOnce, yes, dryRun } }) =>
      upgradeSidecars(context, { namespace, atOnce, mode: confirmMode({ dryRun, yes }) }),
  }),
  command({
    path: ['upgrade', 'rollback'],
    summary: 'Puts the state of a backup back.',
    options: {
      from: value('folder', 'backup (default: that of the last upgrade from this machine)', { completes: 'folder' }),
      yes: YES,
      dryRun: flagOption('show what would be put back, and change nothing'),
    },
    details: `
Workloads, configuration, roles and records of helm become as they were; pods keep running. Records of the
datastore are restored only where the upgrade has changed them. Definitions of resources stay: older
releases ignore what they do not know. The command refuses when another release has been installed since,
or host endpoints for all interfaces have been replaced.`,
    examples: ['netplugctl upgrade rollback --dry-run', 'netplugctl upgrade rollback --yes'],
    timeoutSeconds: UPGRADE_SECONDS,
    run: async (context, { options: { from, yes, dryRun } }) =>
      rollBack(context, { from, mode: confirmMode({ dryRun, yes }) }),
  }),
];
