import { mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { writeFileAtomically } from '../base/atomic-file.ts';
import { errnoOf } from '../base/errors.ts';
import { VERSION } from '../base/version.ts';
import { onFile } from './on-file.ts';

const RecordedFileSchema = v.object({
  kind: v.picklist(['executable', 'kubeconfig', 'conflist']),
  path: v.string(),
  sha256: v.string(),
});
const RecordSchema = v.object({
  format: v.literal(1),
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

/** Returns the record of the installation; undefined without a readable one. */
export async function readRecord(
  stateDir: string,
  report: { readonly warn: (text: string) => void },
): Promise<InstallRecord | undefined> {
  const path = recordPath(stateDir);
  const text = await onFile('read', path, async () => readFile(path, 'utf8').catch(ignoreMissing));
  if (text === undefined) return undefined;
  const read = v.safeParse(v.pipe(v.string(), v.parseJson(), RecordSchema), text);
  if (read.success) return read.output;
  report.warn(`the record of the installation in "${path}" cannot be decoded, and is ignored`);
  return undefined;
}

/** Replaces the record; one without files and folders is removed. */
export async function writeRecord(stateDir: string, { files, folders }: InstallRecord): Promise<void> {
  const path = recordPath(stateDir);
  if (files.length === 0 && folders.length === 0) {
    await onFile('remove', path, async () => rm(path, { force: true }));
    return;
  }
  await onFile('write', path, async () => {
    await mkdir(stateDir, { recursive: true });
    const unique = [...new Map(files.map((file) => [`${file.path}\n${file.sha256}`, file])).values()];
    const text = `${JSON.stringify({ format: 1, by: VERSION, files: unique, folders }, undefined, 2)}\n`;
    await writeFileAtomically(path, { text, mode: MODE });
  });
}

export function recordPath(stateDir: string): string {
  return join(stateDir, 'install.json');
}

function ignoreMissing(cause: unknown): undefined {
  if (errnoOf(cause) !== 'ENOENT') throw cause;
}
