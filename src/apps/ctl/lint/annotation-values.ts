import type { Problem } from '../../../base/problem.ts';
import { tryReadCidr } from '../../../net/cidr.ts';
import { tryParseAddress } from '../../../net/address.ts';
import { BANDWIDTH_ANNOTATIONS } from '../../../model/annotation-keys.ts';
import { readTextArray } from '../../../config/json-texts.ts';
import { POOL_ANNOTATIONS } from './annotation-keys.ts';

type Advice = Pick<Problem, 'hint' | 'fix'>;

/** Returns a hint for a wrong value of an annotation, with a fix if the value is unambiguous. */
export function adviceOnValue(key: string, value: string, path: string): Advice {
  if ((Object.values(BANDWIDTH_ANNOTATIONS) as readonly string[]).includes(key)) return adviceOnRate(value);
  const texts = readTextArray(value);
  if (texts === undefined) return adviceOnList(value, path);
  return POOL_ANNOTATIONS.includes(key) ? {} : adviceOnAddresses(texts);
}

/** Handles a list without brackets or quotes, or with quotes that JSON does not have. */
function adviceOnList(value: string, path: string): Advice {
  const words = value
    .replaceAll(/^\s*\[|\]\s*$/g, '')
    .split(',')
    .map((word) => word.trim().replaceAll(/^["'\u2018\u2019\u201C\u201D]+|["'\u2018\u2019\u201C\u201D]+$/g, ''));
  if (words.some((word) => !/^[\w.:/-]+$/.test(word))) return { hint: 'write a list such as ["10.0.0.1"]' };
  const text = JSON.stringify(words);
  return { hint: `write ${text}`, fix: [{ kind: 'set', path, value: text }] };
}

function adviceOnAddresses(texts: readonly string[]): Advice {
  const addresses = texts.map((text) => (tryParseAddress(text) === undefined ? tryReadCidr(text)?.address : undefined));
  const found = texts.find((_, index) => addresses[index] !== undefined);
  return found === undefined ? {} : { hint: `write "${found.replace(/\/\d+$/, '')}", without prefix length` };
}

/** Handles rates with units of time, of bytes, or written out. */
function adviceOnRate(value: string): Advice {
  const [, number, unit] = /^\s*(\d+(?:\.\d+)?)\s*([kmgt])i?(?:b|bit|bits|bps|b\/s|bit\/s)?\s*$/i.exec(value) ?? [];
  if (number === undefined || unit === undefined) return { hint: 'write bits per second, such as "10M"' };
  return { hint: `write "${number}${unit.toLowerCase() === 'k' ? 'k' : unit.toUpperCase()}", bits per second` };
}
