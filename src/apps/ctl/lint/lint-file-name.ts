import { isList } from '../../../config/lint-conflist.ts';
import type { Remark } from '../../../config/remark.ts';

/** Checks the file extension, by which runtimes distinguish lists from single plugins. */
export function lintFileName(raw: Readonly<Record<string, unknown>>, file: string): readonly Remark[] {
  if (isList(raw) && file.endsWith('.conf')) {
    const message = 'makes this a list, and runtimes look for lists in files that end in .conflist';
    return refuse('plugins', message, 'rename the file so that it ends in .conflist');
  }
  if (isList(raw) || !file.endsWith('.conflist')) return [];
  const message = 'found a single plugin, while runtimes look for lists in files that end in .conflist';
  return refuse('', message, 'put it into "plugins": [ ], name and cniVersion outside, or let the file end in .conf');
}

function refuse(path: string, message: string, hint: string): Remark[] {
  return [{ severity: 'error', problem: { path, message, hint, code: 'netconf/invalid' } }];
}
