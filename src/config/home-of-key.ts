import { COMMON_FIELDS, MAIN_FIELDS } from './fields.ts';
import { IPAM_FIELDS } from './ipam-fields.ts';

export const SECTIONS = {
  '': { ...COMMON_FIELDS, ...MAIN_FIELDS },
  ipam: IPAM_FIELDS,
  orch: COMMON_FIELDS.orch.pipe[0].wrapped.entries,
  container_settings: MAIN_FIELDS.container_settings.pipe[0].wrapped.entries,
  policy: MAIN_FIELDS.policy.pipe[0].wrapped.entries,
  feature_control: MAIN_FIELDS.feature_control.pipe[0].wrapped.entries,
} as const;

/** Keys that are too common to be recognized in another place. */
const COMMON_WORDS = ['type', 'name'];

/** Returns where a key of netplug in section `path` belongs, as text; undefined when it belongs to no other section. */
export function homeOf(key: string, { path, keys }: { path: string; keys: readonly string[] }): string | undefined {
  if (COMMON_WORDS.includes(key)) return undefined;
  const home = Object.entries(SECTIONS).find(
    ([section, fields]) => section !== path && Object.hasOwn(fields, key),
  )?.[0];
  if (home === undefined || (path === '' && !keys.includes(home))) return undefined;
  return home === '' ? 'the top level, beside "type"' : `${home}.${key}`;
}
