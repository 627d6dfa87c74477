import { at, type Problem, showFound } from '../base/problem.ts';
import { isRecord } from '../model/read-schema.ts';
import { placeholderIn } from './value-advice.ts';

/** Names and paths, in which a placeholder would be used literally. */
const FILLED_IN = /^(nodename|log_file_path|kv_\w+_file|orch\.\w+)$/;

/** Refuses unfilled placeholders of templates in options that are names or paths. */
export function refusePlaceholders(raw: Readonly<Record<string, unknown>>, problems: Problem[], path = ''): void {
  for (const [key, value] of Object.entries(raw)) {
    const place = at(path, key);
    if (path === '' && isRecord(value)) refusePlaceholders(value, problems, place);
    if (!FILLED_IN.test(place) || typeof value !== 'string' || placeholderIn(value) === undefined) continue;
    if (problems.some((problem) => problem.path === place)) continue;
    problems.push({
      path: place,
      message: `found ${showFound(value)}, allowed is no placeholder`,
      code: 'netconf/invalid',
    });
  }
}
