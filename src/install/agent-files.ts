import { readFileState, writeFileAtomically } from '../base/atomic-file.ts';
import { SerialQueue } from '../base/serial-queue.ts';
import { sha256Of } from '../base/sha256.ts';
import { isNetplugError } from '../base/errors.ts';
import { onFile } from './on-file.ts';
import { agentRecordPath, type RecordedFile, readRecordAt, writeRecordAt } from './record.ts';

const PRIVATE_MODE = 0o600;
/** Contents of a file that stay recorded: after a crash, any of the last writes may be the one that was carried out. */
const KEPT_CONTENTS = 3;

/** A file that the agent writes for the plugin: conflist, kubeconfig or token. */
export interface AgentFile {
  readonly kind: RecordedFile['kind'];
  readonly path: string;
  readonly text: string;
  /** Of a conflist: digests of the entries of netplug. */
  readonly entries?: readonly string[] | undefined;
  /** The content on which `text` is based, if on any: another one is left alone. */
  readonly over?: string | undefined;
}

/** Writes files that only root can read, and records them, so that `node uninstall` removes them. */
export class AgentFiles {
  readonly #recordPath: string;
  readonly #warn: (text: string) => void;
  readonly #writes = new SerialQueue();

  constructor(stateDir: string, warn: (text: string) => void) {
    this.#recordPath = agentRecordPath(stateDir);
    this.#warn = warn;
  }

  /** Replaces the file atomically unless it has this text and mode. Reports whether it did. @throws install/failed */
  async put(file: AgentFile, signal: AbortSignal): Promise<boolean> {
    const { path, text, entries, over } = file;
    const state = await onFile('read', path, async () => readFileState(path, signal));
    if (state?.sha256 === sha256Of(text) && state.mode === PRIVATE_MODE) {
      // An earlier release recorded the file without its entries.
      const isRecorded =
        entries === undefined || (await this.recordsOf(path)).some((each) => each.entries !== undefined);
      if (!isRecorded) await this.#writes.run(async () => this.#record(file));
      return false;
    }
    const isOther = over !== undefined && state !== undefined && ![over, text].map(sha256Of).includes(state.sha256);
    if (isOther) return false;
    await this.#writes.run(async () => {
      await this.#record(file);
      await onFile('write', path, async () => writeFileAtomically(path, { text, mode: PRIVATE_MODE }));
    });
    return true;
  }

  /** Returns what is recorded of a file; nothing where the record cannot be read. */
  async recordsOf(path: string): Promise<readonly RecordedFile[]> {
    return ((await this.#recorded()) ?? []).filter((each) => each.path === path);
  }

  /** Records the checksum before and after, so that a crash before the write leaves no unrecorded file. */
  async #record({ kind, path, text, entries }: AgentFile): Promise<void> {
    const files = await this.#recorded();
    if (files === undefined) return;
    const others = files.filter((each) => each.path !== path);
    const previous = files.filter((each) => each.path === path).slice(1 - KEPT_CONTENTS);
    const added = { kind, path, sha256: sha256Of(text), ...(entries === undefined ? {} : { entries: [...entries] }) };
    await writeRecordAt(this.#recordPath, { files: [...others, ...previous, added], folders: [] });
  }

  /** Returns undefined for a record of a newer release, which stays as it is: pods need the files even so. */
  async #recorded(): Promise<readonly RecordedFile[] | undefined> {
    try {
      return (await readRecordAt(this.#recordPath, { warn: this.#warn }))?.files ?? [];
    } catch (cause) {
      if (!isNetplugError(cause, 'cli/version-mismatch')) throw cause;
      this.#warn(cause.message);
      return undefined;
    }
  }
}
