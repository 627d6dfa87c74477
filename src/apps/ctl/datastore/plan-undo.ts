import type { Exported } from './export-file.ts';
import { type StoredItem, itemName } from './items.ts';
import type { ImportMark } from './import-mark.ts';
import { planImport, type ImportTarget } from './plan-import.ts';

export interface UndoPlan {
  /** In the order in which they are removed. */
  readonly doomed: readonly StoredItem[];
  /** Why it cannot be done, a sentence each. */
  readonly conflicts: readonly string[];
}

/** What the import of the file has brought and is still as it came. What was changed since is a conflict. */
export function planImportUndo(file: Exported, target: ImportTarget, { kept }: ImportMark): UndoPlan {
  const { equal, conflicts } = planImport(file, target);
  const stays = new Set(kept);
  return { doomed: equal.filter((item) => !stays.has(itemName(item))).toReversed(), conflicts };
}
