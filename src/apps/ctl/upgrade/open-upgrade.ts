import { readFile } from 'node:fs/promises';
import { isNetplugError, NetplugError, reasonOf } from '../../../base/errors.ts';
import { tryParseJson } from '../../../base/try-parse-json.ts';
import { VERSION } from '../../../base/version.ts';
import type { OrchSettings } from '../../../config/connection.ts';
import { editLine } from '../../../install/cluster/edits/edit.ts';
import { reapplyEdits } from '../../../install/cluster/edits/like.ts';
import { DEFAULT_REGISTRY } from '../../../install/cluster/names.ts';
import type { Manifest } from '../../../model/manifest.ts';
import type { FanOutMode } from '../../../model/typha.ts';
import { orchClusterUid } from '../../../kube/cluster-uid.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { detectInstallation } from '../../../upgrade/cluster/detect-installation.ts';
import { installedSettings } from '../../../upgrade/cluster/installed-spec.ts';
import { type ClusterSnapshot, SNAPSHOT_FORMAT, type UpgradeMethod } from '../../../upgrade/cluster/snapshot.ts';
import type { UpgradeTarget } from '../../../upgrade/cluster/target.ts';
import { upgradeTarget } from '../../../upgrade/cluster/upgrade-target.ts';
import { describeCluster, readClusterIdentity } from '../cluster/cluster-identity.ts';
import { readClusterConnection } from '../cluster/cluster-access.ts';
import { readManifest } from '../cluster/print-manifest.ts';
import { refuseOtherRecords } from '../cluster/refuse-other-records.ts';
import type { Context } from '../ports.ts';
import { readSnapshot, type SnapshotSources } from './read-snapshot.ts';

/** Choices about an upgrade that the command line makes. */
export interface UpgradeChoices {
  /** Taken instead of what the objects of the cluster show. */
  readonly method: UpgradeMethod | undefined;
  readonly registry: string | undefined;
  /** An earlier manifest whose edits are made again. */
  readonly like: string | undefined;
  readonly pristine: string | undefined;
  /** Whether agents use netplug-typha; as installed unless given. */
  readonly typha?: FanOutMode;
}

/** Choices that follow what the cluster shows, unedited. */
export const AS_INSTALLED: UpgradeChoices = {
  method: undefined,
  registry: undefined,
  like: undefined,
  pristine: undefined,
};

export interface UpgradeSession extends SnapshotSources {
  readonly access: OrchSettings;
  /** Identifies the cluster. */
  readonly uid: string;
}

/**
 * Opens the API and the datastore of the cluster, and closes them after `use`. Only to read, records may be unreadable: the
 * preflight reports them. @throws cli/usage, store/*, upgrade/refused for records of another cluster
 */
export async function withUpgrade<T>(
  context: Context,
  use: (session: UpgradeSession) => Promise<T>,
  purpose: 'read' | 'write' = 'write',
): Promise<T> {
  const { api: access, kv } = await readClusterConnection(context, undefined);
  const datastore = kv ?? ({ type: 'orch', orch: access } as const);
  await using api = context.ports.openApi(access);
  await using store = context.ports.openStore(datastore);
  const uid = await orchClusterUid(api, context.signal);
  if (datastore.type === 'kvv3')
    await refuseOtherRecords(store, { uid, task: 'upgrade' }, context.signal).catch((cause: unknown) => {
      if (purpose === 'write' || isNetplugError(cause, 'upgrade/refused') || context.signal.aborted) throw cause;
    });
  const cluster = describeCluster(await readClusterIdentity(api, context.signal));
  return await use({ context, api, store, datastore, access, uid, cluster });
}

export interface UpgradeFacts {
  readonly snapshot: ClusterSnapshot;
  readonly target: UpgradeTarget;
}

/** Reads the cluster, or a saved snapshot of one, and what its upgrade leads to. */
export async function readUpgrade(
  context: Context,
  choices: UpgradeChoices & { readonly from: string | undefined },
): Promise<UpgradeFacts> {
  const targetOf = await targetReader(context, choices);
  if (choices.from !== undefined) {
    const saved = await readSavedSnapshot(choices.from);
    const snapshot = choices.method === undefined ? saved : { ...saved, method: choices.method };
    return { snapshot, target: targetOf(snapshot) };
  }
  return withUpgrade(
    context,
    async (session) => {
      const snapshot = await readSnapshot(session, targetOf, choices.method);
      return { snapshot, target: targetOf(snapshot) };
    },
    'read',
  );
}

/** Returns how a target is made of a snapshot, with the edits of an earlier manifest. @throws cli/usage */
export async function targetReader(
  context: Context,
  { registry, like, pristine, typha }: UpgradeChoices,
): Promise<(snapshot: ClusterSnapshot) => UpgradeTarget> {
  if (like === undefined) {
    if (pristine === undefined) {
      return (snapshot) => {
        refuseRegistry(snapshot, registry);
        return upgradeTarget(snapshot, { release: VERSION, registry, typha });
      };
    }
    throw new NetplugError('cli/usage', 'Cannot use --pristine: it is the manifest that --like is compared with', {
      hint: 'Give the edited manifest with --like',
    });
  }
  const earlier = {
    edited: await readManifest(context, like),
    pristine: pristine === undefined ? undefined : await readManifest(context, pristine),
  };
  let isToldWhatIsLost = false;
  return (snapshot) => {
    refuseRegistry(snapshot, registry);
    const { circumstances } = installedSettings(snapshot);
    const { variant, datastore } = detectInstallation(snapshot);
    const endpoints = circumstances.datastore.type === 'kvv3' ? circumstances.datastore.endpoints : undefined;
    const { objects, refused } = reapplyEdits(earlier, {
      wanted: variant === 'policy-only' ? { variant } : { variant, datastore },
      options: { release: VERSION, endpoints, ...(registry === undefined ? {} : { spec: { registry } }) },
    });
    if (!isToldWhatIsLost)
      for (const { edit, reason } of refused) context.io.stderr(`not kept: ${editLine(edit)}: ${reason}\n`);
    isToldWhatIsLost = true;
    const edited: readonly Manifest[] = objects;
    return upgradeTarget(snapshot, { release: VERSION, registry, edited });
  };
}

/** With an operator, the Installation names the registry of the agents. @throws cli/usage */
function refuseRegistry(snapshot: ClusterSnapshot, registry: string | undefined): void {
  const present = installedSettings(snapshot).spec.registry ?? DEFAULT_REGISTRY;
  if (registry === undefined || registry === present || detectInstallation(snapshot).method === 'manifest') return;
  throw new NetplugError(
    'cli/usage',
    `Cannot use --registry ${registry}: the agents are pulled from ${present}, as the Installation says`,
    {
      hint: `Copy the images of ${VERSION} to ${present}, or those of both releases to the other registry, and set spec.registry of the Installation first`,
    },
  );
}

/** Reads a snapshot that `upgrade plan --save` wrote. @throws cli/usage */
export async function readSavedSnapshot(file: string): Promise<ClusterSnapshot> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw unusable(file, reasonOf(cause));
  });
  const raw = tryParseJson(text);
  const isSnapshot = isRecord(raw) && Array.isArray(raw['objects']) && isRecord(raw['datastore']);
  if (!isSnapshot) throw unusable(file, 'it is no snapshot of "netplugctl upgrade plan --save"');
  if (raw['format'] !== SNAPSHOT_FORMAT) {
    throw unusable(
      file,
      `its format is ${JSON.stringify(raw['format'])}, this release reads ${String(SNAPSHOT_FORMAT)}`,
    );
  }
  // Its form was checked as far as another release could differ.
  return raw as unknown as ClusterSnapshot;
}

function unusable(file: string, why: string): NetplugError {
  return new NetplugError('cli/usage', `Cannot use the snapshot "${file}": ${why}`, {
    hint: 'Write it anew with "netplugctl upgrade plan --save FILE"',
  });
}
