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

/** The words for these mean something else in other places, where they may be somebody else's. */
const COMMON_WORDS = ['type', 'name'];

/** Where a key of ours belongs that stands in section `path` beside `keys`, in words; undefined when nowhere else. */
export function homeOf(key: string, { path, keys }: { path: string; keys: readonly string[] }): string | undefined {
  if (COMMON_WORDS.includes(key)) return undefined;
  const home = Object.entries(SECTIONS).find(
    ([section, fields]) => section !== path && Object.hasOwn(fields, key),
  )?.[0];
  if (home === undefined || (path === '' && !keys.includes(home))) return undefined;
  return home === '' ? 'the top level, beside "type"' : `${home}.${key}`;
}
