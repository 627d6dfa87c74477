import { readFileSync } from 'node:fs';
import { isMissing } from '../base/missing-file.ts';

/** Returns the trimmed text of a small file; undefined when the file is missing or empty. */
export function readText(path: string): string | undefined {
  try {
    const text = readFileSync(path, 'utf8').trim();
    return text === '' ? undefined : text;
  } catch (cause) {
    if (isMissing(cause)) return undefined;
    throw cause;
  }
}
