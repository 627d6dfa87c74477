import { isDeepStrictEqual } from 'node:util';
import type { InstallationSpec } from '../../model/installation.ts';
import type { InstallMethod } from './checks/preflight-facts.ts';
import { FIELD_ROWS } from './fields.ts';
import type { Variant } from './settings.ts';
import { valueAt } from './spec-path.ts';

/** Returns the paths of fields that the spec sets to something and that have no effect, each with the reason. Pure. */
export function idleFields(
  spec: InstallationSpec,
  { method, variant }: { readonly method: InstallMethod; readonly variant: Variant },
): readonly { readonly path: string; readonly reason: string }[] {
  const paths = FIELD_ROWS.flatMap(([path, { idle = {} }]) => {
    const written = valueAt(spec, path);
    const isIdle = written !== undefined && variant in idle && !isDeepStrictEqual(written, idle[variant]);
    return isIdle ? [{ path: `spec.${path}`, reason: `--variant ${variant}` }] : [];
  });
  if (method !== 'manifest' || spec.deletionPolicy === undefined) return paths;
  return [...paths, { path: 'spec.deletionPolicy', reason: '--method manifest, which installs no operator' }];
}
