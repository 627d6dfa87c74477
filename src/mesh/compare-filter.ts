import { isDeepStrictEqual } from 'node:util';
import { CHECK_CLUSTER } from './check-filter.ts';
import { envoyFilter, FILTER_NAME } from './envoy-filter.ts';

/** What an EnvoyFilter does for netplug. `changed`: it has the name of netplug's, and is not that of this release. */
export type FilterState = 'current' | 'changed' | 'fails-open' | 'foreign';

/** Reports whether proxies with the filter ask netplug-sidecar. */
export function asksSidecar(spec: unknown): boolean {
  return JSON.stringify(spec ?? '').includes(JSON.stringify(CHECK_CLUSTER));
}

/** Compares a filter that asks netplug-sidecar with the one of this release. */
export function compareFilter(name: string, spec: unknown): FilterState {
  if (failsOpen(spec)) return 'fails-open';
  if (name !== FILTER_NAME) return 'foreign';
  const wanted = JSON.parse(JSON.stringify(envoyFilter())) as { readonly spec: unknown };
  return isDeepStrictEqual(spec, wanted.spec) ? 'current' : 'changed';
}

const FAIL_OPEN: readonly string[] = ['failure_mode_allow', 'failureModeAllow'];

/** Reports whether a patch that asks netplug-sidecar lets requests pass when it cannot. */
function failsOpen(spec: unknown): boolean {
  const patches =
    typeof spec === 'object' && spec !== null && 'configPatches' in spec && Array.isArray(spec.configPatches)
      ? spec.configPatches
      : [];
  return patches.some((patch: unknown) => asksSidecar(patch) && allowsOnFailure(patch));
}

function allowsOnFailure(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(value).some(
    ([key, each]) => (FAIL_OPEN.includes(key) && each === true) || allowsOnFailure(each),
  );
}
