import { hash } from 'node:crypto';
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
  return hash('sha256', text, 'hex').slice(0, DIGEST_CHARACTERS);
}
