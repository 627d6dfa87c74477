import { ownValue } from '../base/own-value.ts';
import { didYouMean, nearMiss, onlyNearMiss } from '../base/near-miss.ts';
import { at, type Edit, type Findings, type Fix } from '../base/problem.ts';
import { isRecord } from '../model/read-schema.ts';
import { adviceOn, ourNameOf } from './foreign-keys.ts';
import { homeOf } from './home-of-key.ts';

/** Keys of the CNI standard and of runtimes that are allowed in any plugin's configuration. */
const CNI_KEYS = new Set([
  'prevResult',
  'runtimeConfig',
  'capabilities',
  'args',
  'cniVersions',
  'disableCheck',
  'disableGC',
  'loadOnlyInlinedPlugins',
  'dns',
  'ipMasq',
]);

type Raw = Readonly<Record<string, unknown>>;

/** Whether a configuration also contains keys of another main plugin, as the address manager sees it. */
type Strictness = 'own-keys-only' | 'with-foreign-keys';

export interface KnownKeys {
  readonly keys: readonly string[];
  readonly path: string;
  readonly strictness: Strictness;
}

/**
 * Refuses misspelled keys and keys in the wrong section, because ignoring them would silently use a default. Warns about
 * other unknown keys.
 */
export function checkKeys(raw: Raw, known: KnownKeys, findings: Findings): void {
  for (const key of Object.keys(raw)) {
    if (known.keys.includes(key) || (known.path === '' && isCniKey(key))) continue;
    if (known.strictness === 'own-keys-only') checkStray(key, raw, known, findings);
    else warnAboutMisspelling(key, known, findings);
  }
}

// oxlint-disable-next-line max-params -- an options object would only rename the four
function checkStray(key: string, raw: Raw, { keys, path }: KnownKeys, { problems, warnings }: Findings): void {
  const where = at(path, key);
  const code = 'netconf/invalid';
  const meant = meantBy(key, keys);
  const home = meant === undefined ? homeOf(key, { path, keys }) : undefined;
  const advice = adviceOn(key);
  if (meant !== undefined) {
    const fix = renaming(key, raw, { keys, path });
    const hint = didYouMean(meant);
    problems.push({
      path: where,
      message: 'is not a key of netplug',
      hint,
      code,
      ...(fix === undefined ? {} : { fix }),
    });
  } else if (home !== undefined) {
    problems.push({ path: where, message: 'has no effect in this place', hint: `move it to ${home}`, code });
  } else {
    const message = `Unknown key ${where} is ignored${advice === undefined ? '' : `: ${advice}`}`;
    warnings.push({ path: where, message });
  }
}

function warnAboutMisspelling(key: string, { keys, path }: KnownKeys, { warnings }: Findings): void {
  const meant = meantBy(key, keys);
  const where = at(path, key);
  if (meant === undefined) return;
  warnings.push({ path: where, message: `Unknown key ${where} is ignored: ${didYouMean(meant)}` });
}

function meantBy(key: string, keys: readonly string[]): string | undefined {
  const ours = ourNameOf(key);
  return nearMiss(key, keys) ?? (ours !== undefined && keys.includes(ours) ? ours : undefined);
}

/** Returns the fix that renames the key; undefined when its meaning is ambiguous or the new key exists. Renames keys of a section too. */
function renaming(key: string, raw: Raw, { keys, path }: Pick<KnownKeys, 'keys' | 'path'>): Fix | undefined {
  const ours = ourNameOf(key);
  const isPeers = nearMiss(key, keys) === undefined && ours !== undefined && keys.includes(ours);
  const to = isPeers ? ours : onlyNearMiss(key, keys);
  if (to === undefined || Object.hasOwn(raw, to)) return undefined;
  const where = at(path, key);
  const section = ownValue(raw, key);
  const inner = isPeers && isRecord(section) ? Object.keys(section) : [];
  return [
    { kind: 'rename', path: where, to },
    ...inner.flatMap((name): Edit[] => {
      const ourName = ourNameOf(name);
      return ourName === undefined ? [] : [{ kind: 'rename', path: at(where, name), to: ourName }];
    }),
  ];
}

function isCniKey(key: string): boolean {
  return CNI_KEYS.has(key) || key.startsWith('cni.dev/');
}
