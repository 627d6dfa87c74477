import { problemsError } from '../../../base/problem.ts';
import type { InstallationSpec } from '../../../model/installation.ts';

/** Refuses the fan-out where records are in etcd, which serves a watch of every agent well. @throws resource/invalid */
export function refuseFanOut({ typha }: InstallationSpec, datastore: 'orch' | 'kvv3'): void {
  if (datastore === 'orch' || typha?.mode !== 'Enabled') return;
  const message =
    'found "Enabled", allowed is "Disabled" with records in etcd, which serves the watches of all agents itself';
  const hint = 'Leave spec.typha out, or keep records in the API (--datastore orch)';
  throw problemsError(
    'the Installation',
    [{ path: 'spec.typha.mode', message, hint, code: 'resource/invalid' }],
    'resource/invalid',
  );
}
