import { sha256Of } from '../base/sha256.ts';
import type { TableRule } from './policy-filter.ts';

const DIGEST_CHARACTERS = 24;

/** Returns a text that is equal for equal rules only. */
export function digestOfRules(rules: readonly TableRule[]): string {
  return digestOfText(
    JSON.stringify(rules, (_key, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value)),
  );
}

/** Returns 96 bits of a hash, in hexadecimal digits. */
export function digestOfText(text: string): string {
  return sha256Of(text).slice(0, DIGEST_CHARACTERS);
}
