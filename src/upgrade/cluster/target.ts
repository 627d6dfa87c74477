import type { Manifest } from '../../model/manifest.ts';
import type { ObjectStage } from '../../install/cluster/cluster-objects.ts';

/** The release that an upgrade leads to, with everything that is applied for it. */
export interface UpgradeTarget {
  /** Example: `v3.27.0`. */
  readonly release: string;
  /** Objects of the installed variant with the user's edits, by stage. */
  readonly stages: readonly ObjectStage[];
  /** Objects of the operator; used by the methods `operator` and `chart`. */
  readonly operator: readonly Manifest[];
  /** Where a user gets the files, for commands: a folder or URL. */
  readonly source: string;
  /** Name of the file for the installed method and variant. */
  readonly manifest: string;
  /** Name of the file with the CRDs. */
  readonly definitions: string;
  /** Folder of the chart. */
  readonly chart: string;
  /** Full versions of the mesh for which there is an injector template. */
  readonly injectors: readonly string[];
}

/** Returns what the target installs, without its operator. */
export function objectsOf({ stages }: UpgradeTarget): readonly Manifest[] {
  return stages.flatMap(({ objects }) => objects);
}
