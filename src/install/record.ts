import { mkdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as v from 'valibot';
import { writeFileAtomically } from '../base/atomic-file.ts';
import { NetplugError } from '../base/errors.ts';
import { ignoreMissing } from '../base/missing-file.ts';
import { VERSION } from '../base/version.ts';
import { onFile } from './on-file.ts';

const FORMAT = 1;
const RecordedFileSchema = v.object({
  kind: v.picklist(['executable', 'kubeconfig', 'conflist', 'token', 'certificate']),
  path: v.string(),
  sha256: v.string(),
  /** Of a conflist: the digests of its entries of netplug, since other programs add entries. Earlier releases wrote none. */
  entries: v.optional(v.array(v.string())),
});
const NewerSchema = v.looseObject({
  format: v.pipe(v.number(), v.gtValue(FORMAT)),
  by: v.optional(v.string()),
});
const RecordSchema = v.object({
  format: v.literal(FORMAT),
  files: v.array(RecordedFileSchema),
  folders: v.optional(v.array(v.string()), []),
});

/** An installed file. During an installation, a path may be listed twice: with its old and its new checksum. */
export type RecordedFile = Readonly<v.InferOutput<typeof RecordedFileSchema>>;

/** Record of the files and folders that netplugctl has installed on this node. */
export interface InstallRecord {
  readonly files: readonly RecordedFile[];
  /** Folders that were created for the files, parents first. */
  readonly folders: readonly string[];
}

const MODE = 0o600;

interface RecordReport {
  readonly warn: (text: string) => void;
}

/** Returns the record of the installation; undefined without a readable one. @throws cli/version-mismatch for one of a newer release */
export async function readRecord(stateDir: string, report: RecordReport): Promise<InstallRecord | undefined> {
  return readRecordAt(recordPath(stateDir), report);
}

/** Replaces the record; one without files and folders is removed. */
export async function writeRecord(stateDir: string, record: InstallRecord): Promise<void> {
  await writeRecordAt(recordPath(stateDir), record);
}

/** Returns a record from a file; undefined without a readable one. @throws cli/version-mismatch for one of a newer release, which stays */
export async function readRecordAt(path: string, report: RecordReport): Promise<InstallRecord | undefined> {
  const text = await onFile('read', path, async () => readFile(path, 'utf8').catch(ignoreMissing));
  if (text === undefined) return undefined;
  const read = v.safeParse(v.pipe(v.string(), v.parseJson(), RecordSchema), text);
  if (read.success) return read.output;
  const newer = v.safeParse(v.pipe(v.string(), v.parseJson(), NewerSchema), text);
  if (newer.success) {
    const { format, by = 'a newer release' } = newer.output;
    throw new NetplugError(
      'cli/version-mismatch',
      `Cannot use the record of installed files in "${path}": ${by} has written it in format ${String(format)}, this release reads ${String(FORMAT)}`,
      { hint: `Use netplugctl of ${by}` },
    );
  }
  report.warn(`the record of installed files in "${path}" cannot be decoded, and is ignored`);
  return undefined;
}

/** Replaces a record in a file; one without files and folders is removed. */
export async function writeRecordAt(path: string, { files, folders }: InstallRecord): Promise<void> {
  if (files.length === 0 && folders.length === 0) {
    await onFile('remove', path, async () => rm(path, { force: true }));
    return;
  }
  await onFile('write', path, async () => {
    await mkdir(dirname(path), { recursive: true });
    const unique = [...new Map(files.map((file) => [`${file.path}\n${file.sha256}`, file])).values()];
    const text = `${JSON.stringify({ format: FORMAT, by: VERSION, files: unique, folders }, undefined, 2)}\n`;
    await writeFileAtomically(path, { text, mode: MODE });
  });
}

export function recordPath(stateDir: string): string {
  return join(stateDir, 'install.json');
}

/** Returns the path of the record of the files that the agent has written for the plugin. */
export function agentRecordPath(stateDir: string): string {
  return join(stateDir, 'agent-files.json');
}
