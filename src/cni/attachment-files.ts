import { sha256Of } from '../base/sha256.ts';
import { existsSync, mkdirSync, watch } from 'node:fs';
import { chmod, mkdir, open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFileAtomically } from '../base/atomic-file.ts';
import { errnoOf, NetplugError, reasonOf } from '../base/errors.ts';
import { ignoreMissing, isMissing } from '../base/missing-file.ts';
import { type AttachmentRecord, decodeAttachmentRecord, encodeAttachmentRecord } from '../model/attachment-record.ts';
import { type Attachment, handleOf } from '../model/names.ts';
import type { AttachmentRecords } from './attachment-records.ts';

const SUFFIX = '.json';
/** Far more than any record needs, also one with all labels that the API server accepts. */
const LARGEST_BYTES = 4 << 20;
const FOLDER_MODE = 0o700;

/** Stores the record of each attachment in a file of its own, in a folder that only root can read. */
export class AttachmentFiles implements AttachmentRecords {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async put(record: AttachmentRecord): Promise<void> {
    const path = this.#pathOf(record.attachment);
    await doing('write', path, async () => {
      await mkdir(this.#folder, { recursive: true, mode: FOLDER_MODE });
      await chmod(this.#folder, FOLDER_MODE);
      await writeFileAtomically(path, { text: encodeAttachmentRecord(record), mode: 0o600 });
    });
  }

  async find(attachment: Attachment): Promise<AttachmentRecord | undefined> {
    const name = fileOf(attachment);
    // Most attachments have no record, and a synchronous check is cheaper than an asynchronous read that fails.
    if (!existsSync(join(this.#folder, name))) return undefined;
    const found = await this.#read(name);
    return found === undefined || 'problem' in found ? undefined : found;
  }

  async remove(attachment: Attachment): Promise<void> {
    const path = this.#pathOf(attachment);
    if (existsSync(path)) await doing('remove', path, async () => rm(path, { force: true }));
  }

  async list(): Promise<{ readonly records: readonly AttachmentRecord[]; readonly problems: readonly string[] }> {
    const names = await doing(
      'list',
      this.#folder,
      async () => (await readdir(this.#folder).catch(ignoreMissing)) ?? [],
    );
    const records: AttachmentRecord[] = [];
    const problems: string[] = [];
    for (const name of names.filter((each) => each.endsWith(SUFFIX)).sort()) {
      const found = await this.#read(name);
      if (found === undefined) continue;
      if ('problem' in found) problems.push(`Cannot use "${join(this.#folder, name)}": ${found.problem}`);
      else records.push(found);
    }
    return { records, problems };
  }

  /**
   * Calls `onChange` when any program creates, changes or removes a record. Events may be missed, and stop when the
   * folder is removed or cannot be watched: callers must also list the records periodically.
   */
  watch(onChange: () => void): Disposable {
    try {
      mkdirSync(this.#folder, { recursive: true, mode: FOLDER_MODE });
      const watcher = watch(this.#folder, { persistent: false }, onChange);
      watcher.on('error', () => watcher.close());
      return { [Symbol.dispose]: () => watcher.close() };
    } catch (cause) {
      if (errnoOf(cause) === undefined) throw cause;
      return { [Symbol.dispose]: () => undefined };
    }
  }

  #pathOf(attachment: Attachment): string {
    return join(this.#folder, fileOf(attachment));
  }

  /** Returns undefined when the file does not exist. */
  async #read(name: string): Promise<AttachmentRecord | { readonly problem: string } | undefined> {
    let text: string;
    try {
      await using file = await open(join(this.#folder, name), 'r');
      const { size } = await file.stat();
      if (size > LARGEST_BYTES) return { problem: 'it is too large' };
      text = await file.readFile('utf8');
    } catch (cause) {
      return isMissing(cause) ? undefined : { problem: reasonOf(cause) };
    }
    const record = decodeAttachmentRecord(text);
    if ('problem' in record || fileOf(record.attachment) === name) return record;
    return { problem: 'it is the record of another attachment' };
  }
}

/** Returns the file name: a hash, because the name of a network may contain any character. */
function fileOf(attachment: Attachment): string {
  return `${sha256Of(handleOf(attachment)).slice(0, 32)}${SUFFIX}`;
}

async function doing<T>(what: string, path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw new NetplugError('cni/record-failed', `Cannot ${what} "${path}": ${reasonOf(cause)}`, {
      hint: 'Check the free space and the permissions of the folder with df and ls -ld',
      facts: { path },
      cause,
    });
  }
}
