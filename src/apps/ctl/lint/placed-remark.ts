import type { Remark } from '../../../config/remark.ts';
import type { Region } from '../document-tree.ts';
import type { Replacement } from './replacements.ts';

/** A remark with its range in the file, and the change that resolves it. */
export interface PlacedRemark extends Remark {
  readonly file: string;
  readonly region: Region;
  readonly replacements: readonly Replacement[] | undefined;
}
