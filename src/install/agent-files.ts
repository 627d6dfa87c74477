import { readFileState, writeFileAtomically } from '../base/atomic-file.ts';
import { SerialQueue } from '../base/serial-queue.ts';
import { sha256Of } from '../base/sha256.ts';
import { isNetplugError } from '../base/errors.ts';
import { onFile } from './on-file.ts';
import { agentRecordPath, type RecordedFile, readRecordAt, writeRecordAt } from './record.ts';

const PRIVATE_MODE = 0o600;

/** A file that the agent writes for the plugin: conflist, kubeconfig or token. */
export interface AgentFile {
  readonly kind: RecordedFile['kind'];
  readonly path: string;
  readonly text: string;
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
    const { path, text } = file;
    const state = await onFile('read', path, async () => readFileState(path, signal));
    if (state?.sha256 === sha256Of(text) && state.mode === PRIVATE_MODE) return false;
    await this.#writes.run(async () => this.#write(file));
    return true;
  }

  /** Records the checksum before and after, so that a crash in between leaves no unrecorded file. */
  async #write({ kind, path, text }: AgentFile): Promise<void> {
    const files = await this.#recorded();
    if (files !== undefined) {
      const others = files.filter((each) => each.path !== path);
      const previous = files.filter((each) => each.path === path).slice(-1);
      const written = [...others, ...previous, { kind, path, sha256: sha256Of(text) }];
      await writeRecordAt(this.#recordPath, { files: written, folders: [] });
    }
    await onFile('write', path, async () => writeFileAtomically(path, { text, mode: PRIVATE_MODE }));
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
