import { NetplugError } from '../../../base/errors.ts';
import { VERSION } from '../../../base/version.ts';
import { findObject, mergeInto } from '../../../kube/objects/apply.ts';
import { referenceTo } from '../../../kube/objects/reference.ts';
import { INSTALLATION_NAME } from '../../../model/installation.ts';
import { type FanOutMode, fanOutWord } from '../../../model/typha.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { detectInstallation } from '../../../upgrade/cluster/detect-installation.ts';
import type { UpgradeMethod } from '../../../upgrade/cluster/snapshot.ts';
import { usesFanOut } from '../../../upgrade/cluster/uses-fan-out.ts';
import { confirm, type ConfirmMode } from '../cluster/confirm.ts';
import { podRun } from '../cluster/node-pods.ts';
import { refuseFanOut } from '../cluster/refuse-fan-out.ts';
import { waitForInstallation } from '../cluster/wait-ready.ts';
import type { Context, Status } from '../ports.ts';
import { applyUpgrade } from '../upgrade/apply-upgrade.ts';
import { AS_INSTALLED, targetReader, type UpgradeSession, withUpgrade } from '../upgrade/open-upgrade.ts';
import { readSnapshot } from '../upgrade/read-snapshot.ts';

export interface SwitchOptions {
  readonly typha: FanOutMode;
  /** Ids of checks whose hazards the user accepts, with a manifest. */
  readonly accept: readonly string[];
  readonly proof: 'run' | 'skip';
  readonly mode: ConfirmMode;
}

/** What a fleet without a server has, and switching the fan-out off ends. */
const OF_NO_SERVER = ['nodes/not-ready', 'nodes/agent-missing', 'objects/rolling'];

/**
 * Switches the fan-out on or off, by the method by which netplug was installed, and waits until every agent has followed.
 * @throws resource/invalid with records in etcd, upgrade/refused where this tool is of another release
 */
export async function switchFanOut(context: Context, { typha, accept, proof, mode }: SwitchOptions): Promise<Status> {
  const targetOf = await targetReader(context, AS_INSTALLED);
  return withUpgrade(context, async (session) => {
    refuseFanOut({ typha: { mode: typha } }, session.datastore.type);
    const snapshot = await readSnapshot(session, targetOf);
    const { method, from } = detectInstallation(snapshot);
    if (method !== 'manifest') return switchInstallation(session, { typha, method, mode });
    if (from !== undefined && from !== VERSION) throw otherRelease(typha, from);
    if (usesFanOut(snapshot.objects) === (typha === 'Enabled')) context.io.stdout(`${standing(typha)} already\n`);
    return applyUpgrade(context, {
      ...AS_INSTALLED,
      typha,
      accept: typha === 'Disabled' ? [...accept, ...OF_NO_SERVER] : accept,
      with: [],
      backup: undefined,
      proof,
      mode,
    });
  });
}

/** Sets the mode in the Installation, which the operator carries out: servers before agents, or after them. */
async function switchInstallation(
  { context, api, cluster }: UpgradeSession,
  { typha, method, mode }: { readonly typha: FanOutMode; readonly method: UpgradeMethod; readonly mode: ConfirmMode },
): Promise<Status> {
  const { io, signal } = context;
  const which = referenceTo('Installation', { name: INSTALLATION_NAME });
  const before = await findObject(api, which, signal);
  const present = modeIn(before?.['spec']);
  io.stdout(`cluster: ${cluster}\nInstallation ${INSTALLATION_NAME}: spec.typha.mode: ${present} -> ${typha}\n`);
  if (mode === 'dry-run') return 0;
  if (present !== typha) {
    if (mode === 'ask' && !(await confirm(context, `Switch netplug-typha ${fanOutWord(typha)}?`))) return 1;
    await mergeInto(api, { which, body: { spec: { typha: { mode: typha } } } }, signal);
  }
  await waitForInstallation(podRun(api, context), 'as-configured');
  io.stdout(`${standing(typha)}\n`);
  if (method === 'chart')
    io.stdout(
      `left for you: set installation.typha.mode=${typha} in the values of the chart: its next upgrade would put the old one back\n`,
    );
  return 0;
}

function standing(typha: FanOutMode): string {
  return typha === 'Enabled'
    ? 'netplug-typha is on: agents follow its servers'
    : 'netplug-typha is off: agents follow the API server';
}

function modeIn(spec: unknown): FanOutMode {
  const typha = isRecord(spec) ? spec['typha'] : undefined;
  return isRecord(typha) && typha['mode'] === 'Enabled' ? 'Enabled' : 'Disabled';
}

/** The objects of the manifest are those of this tool: another release would be an upgrade. */
function otherRelease(typha: FanOutMode, from: string): NetplugError {
  const word = fanOutWord(typha);
  return new NetplugError(
    'upgrade/refused',
    `Cannot switch netplug-typha ${word}: the cluster has release ${from}, this tool is of ${VERSION}`,
    {
      hint: `Use netplugctl of ${from}, or upgrade with "netplugctl upgrade apply" first`,
      facts: { release: from, tool: VERSION },
    },
  );
}
