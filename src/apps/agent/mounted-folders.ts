import type { NodeProblem } from '../../model/node-report.ts';

/** Looks that must agree, a minute apart: a path leads nowhere for a moment while it is replaced. */
const LOOKS = 2;

interface MountedFoldersPorts {
  /** Returns the faults of folders that the runtime sees no more; undefined while that is not known. */
  readonly find: () => Promise<readonly NodeProblem[] | undefined>;
  /** Called once when folders that were right have been replaced: a new container has those of now. */
  readonly onReplaced: (reason: string) => void;
}

/** Notices that the folders of the runtime have become others than those that are mounted in the container of this process. */
export class MountedFolders {
  readonly #ports: MountedFoldersPorts;
  #wereRight = false;
  #looks = 0;

  constructor(ports: MountedFoldersPorts) {
    this.#ports = ports;
  }

  /** Looks once. Folders that were never right are only reported: another container would have the same. */
  async look(): Promise<readonly NodeProblem[]> {
    const found = await this.#ports.find();
    if (found === undefined) return [];
    const [first] = found;
    this.#wereRight ||= first === undefined;
    this.#looks = first === undefined ? 0 : this.#looks + 1;
    if (first !== undefined && this.#wereRight && this.#looks === LOOKS) this.#ports.onReplaced(first.text);
    return found;
  }
}
