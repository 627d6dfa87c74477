import { mkdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as v from 'valibot';
import { foreignRecord } from '../../../base/foreign-record.ts';
import { writeFileAtomically } from '../../../base/atomic-file.ts';
import { sha256Of } from '../../../base/sha256.ts';
import { errnoOf, NetplugError, reasonOf } from '../../../base/errors.ts';
import { tryParseJson } from '../../../base/try-parse-json.ts';
import { VERSION } from '../../../base/version.ts';
import { visibleText } from '../../../base/visible-text.ts';
import { newCluster } from '../../../datastore/keep-cluster-information.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { detectInstallation } from '../../../upgrade/cluster/detect-installation.ts';
import { findReference, objectName, referenceKey } from '../../../kube/objects/reference.ts';
import { isChartRecord, isOwnObject } from '../../../upgrade/cluster/own-objects.ts';
import type { ClusterSnapshot } from '../../../upgrade/cluster/snapshot.ts';
import type { UpgradeTarget } from '../../../upgrade/cluster/target.ts';
import { readContents } from '../datastore/contents.ts';
import { type Exported, readExport, renderExport } from '../datastore/export-file.ts';
import { type MeshTemplate, readMeshTemplates } from '../mesh/read-mesh-templates.ts';
import type { Io } from '../ports.ts';
import type { UpgradeSession } from './open-upgrade.ts';
import { readChartRecords } from './read-charts.ts';
import { readInstalledObjects } from './read-objects.ts';

const FORMAT = 'netplug-backup/1';
const SUMS = 'SHA256SUMS';
const FILES = ['backup.json', 'snapshot.json', 'objects.json', 'charts.json', 'records.json'] as const;
type FileName = (typeof FILES)[number];

const Objects = v.array(foreignRecord(v.string(), v.unknown()));
const Header = v.looseObject({
  format: v.literal(FORMAT),
  at: v.string(),
  by: v.string(),
  from: v.string(),
  to: v.string(),
  method: v.string(),
  /** Uid of the cluster. */
  cluster: v.optional(v.string()),
  /** Names of what the upgrade applies, so that a rollback removes what is new. */
  applied: v.array(v.string()),
  /** Injection templates of the mesh; undefined where they could not be read. */
  templates: v.optional(v.array(v.object({ namespace: v.string(), name: v.string(), text: v.string() }))),
});

export interface Backup {
  readonly header: Readonly<v.InferOutput<typeof Header>>;
  /** Objects as the API had them, with managers and data. */
  readonly objects: readonly Manifest[];
  /** Secrets with the records of helm. */
  readonly charts: readonly Manifest[];
  readonly records: Exported;
}

/** Writes a backup into a new folder, and reads it back before the folder gets its name. @throws cli/usage, store/*, upgrade/backup-unusable */
export async function writeBackup(
  { context: { io, ports, signal }, api, store, datastore, uid }: UpgradeSession,
  {
    snapshot,
    target,
    folder,
  }: { readonly snapshot: ClusterSnapshot; readonly target: UpgradeTarget; readonly folder: string },
): Promise<Backup> {
  const at = new Date(ports.clock.now()).toISOString();
  const { from = 'unknown', method } = detectInstallation(snapshot);
  const { cluster = newCluster(), ...contents } = await readContents(store, signal);
  const applied = [...target.stages.flatMap(({ objects }) => objects), ...target.operator].map(objectName);
  const templates = await readTemplates(api, io, signal);
  const json = (value: unknown): string => `${JSON.stringify(value, undefined, 1)}\n`;
  const texts: Readonly<Record<FileName, string>> = {
    'backup.json': json({
      format: FORMAT,
      at,
      by: VERSION,
      from,
      to: target.release,
      method,
      cluster: uid,
      applied,
      templates,
    }),
    'snapshot.json': json(snapshot),
    'objects.json': json(await readInstalledObjects(api, snapshot.served, signal)),
    'charts.json': json((await readChartRecords(api, signal)).secrets),
    'records.json': renderExport({ cluster, ...contents }, { at, by: VERSION, datastore: datastore.type }),
  };
  const draft = `${folder}.draft`;
  await rm(draft, { recursive: true, force: true });
  await mkdir(dirname(folder), { recursive: true });
  await mkdir(draft, { mode: 0o700 });
  // Private: it holds certificates and the addresses of pods.
  for (const name of FILES) await writeFileAtomically(join(draft, name), { text: texts[name], mode: 0o600 });
  const sums = FILES.map((name) => `${sha256Of(texts[name])}  ${name}\n`).join('');
  await writeFileAtomically(join(draft, SUMS), { text: sums, mode: 0o600 });
  const backup = await readBackup(draft);
  await rename(folder, `${folder}.${at.replaceAll(':', '')}`).catch((cause: unknown) => {
    if (errnoOf(cause) !== 'ENOENT') throw cause;
  });
  await rename(draft, folder);
  return backup;
}

/** Reads the injection templates; undefined, with a note, where they cannot be read: objects of others must not keep anyone from a backup. */
export async function readTemplates(
  api: OrchApi,
  io: Pick<Io, 'stderr'>,
  signal: AbortSignal,
): Promise<readonly MeshTemplate[] | undefined> {
  try {
    return await readMeshTemplates(api, { ifUnreadable: 'omit' }, signal);
  } catch (cause) {
    signal.throwIfAborted();
    if (!(cause instanceof NetplugError)) throw cause;
    const why = visibleText(reasonOf(cause));
    io.stderr(`note: the backup is without the injection templates of a mesh, which could not be read (${why})\n`);
    return undefined;
  }
}

/** Reads a backup and checks every file of it. @throws upgrade/backup-unusable */
export async function readBackup(folder: string): Promise<Backup> {
  const read = async (name: string): Promise<string> =>
    readFile(join(folder, name), 'utf8').catch((cause: unknown) => {
      throw unusable(folder, `${name} cannot be read: ${reasonOf(cause)}`);
    });
  const sums = new Map(
    (await read(SUMS))
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => [line.slice(66), line.slice(0, 64)]),
  );
  const texts = new Map<FileName, string>();
  for (const name of FILES) {
    const text = await read(name);
    if (sums.get(name) !== sha256Of(text)) throw unusable(folder, `the checksum of ${name} does not match`);
    texts.set(name, text);
  }
  const parse = <const S extends v.GenericSchema>(name: FileName, schema: S): v.InferOutput<S> => {
    const parsed = v.safeParse(schema, tryParseJson(texts.get(name) ?? ''));
    if (parsed.success) return parsed.output;
    throw unusable(folder, `${name} has a form that this release does not read`);
  };
  const name = join(folder, 'records.json');
  const header = parse('backup.json', Header);
  const objects = parse('objects.json', Objects);
  const charts = parse('charts.json', Objects);
  refuseForeign(folder, { objects, charts });
  return { header, objects, charts, records: readExport({ name, text: texts.get('records.json') ?? '' }) };
}

/** A rollback creates what a backup holds, so that it must hold nothing else. @throws upgrade/backup-unusable */
function refuseForeign(folder: string, backup: Pick<Backup, 'objects' | 'charts'>): void {
  const foreign = [
    ...backup.objects.filter((object) => !isOwnObject(object)),
    ...backup.charts.filter((object) => !isChartRecord(object)),
  ];
  if (foreign.length === 0) return;
  const names = foreign.map((object) => {
    const which = findReference(object);
    return which === undefined ? 'one without a name' : referenceKey(which);
  });
  throw unusable(folder, `it has objects that are not netplug's: ${names.join(', ')}`);
}

/** Returns the backup of the folder if there is a sound one. */
export async function findBackup(folder: string): Promise<Backup | undefined> {
  return readBackup(folder).catch((cause: unknown) => {
    if (cause instanceof NetplugError) return undefined;
    throw cause;
  });
}

function unusable(folder: string, why: string): NetplugError {
  return new NetplugError('upgrade/backup-unusable', `Cannot use the backup "${folder}": ${why}`, {
    hint: 'Name the folder that "netplugctl upgrade backup" or "upgrade apply" has written, unmodified',
  });
}
