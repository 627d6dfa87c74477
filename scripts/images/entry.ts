/** A file or link of a layer; images/assemble reads it as JSON. Folders are added. */
export interface Entry {
  /** Without a leading slash. */
  readonly path: string;
  readonly mode: number;
  /** File with the content. */
  readonly source?: string;
  /** Content, for a file without a source. */
  readonly text?: string;
  /** Target of a symbolic link. */
  readonly symlink?: string;
  /** Path of another file of the layer. */
  readonly hardlink?: string;
}

const FOLDER_MODE = 0o755;

/** Adds the folders that the entries are in, unless an entry says what they are. */
export function withFolders(entries: readonly Entry[]): readonly Entry[] {
  const all = new Map<string, Entry>();
  for (const entry of entries) {
    if (all.has(entry.path)) throw new Error(`${entry.path} is in a layer twice`);
    all.set(entry.path, entry);
  }
  for (const { path } of entries) {
    const names = path.split('/');
    for (let depth = 1; depth < names.length; depth += 1) {
      const folder = names.slice(0, depth).join('/');
      if (!all.has(folder)) all.set(folder, { path: folder, mode: FOLDER_MODE });
    }
  }
  return [...all.values()].sort((one, other) => (one.path < other.path ? -1 : 1));
}
