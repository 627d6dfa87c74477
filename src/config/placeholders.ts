import { at, type Problem, showFound } from '../base/problem.ts';
import { isRecord } from '../model/read-schema.ts';
import { placeholderIn } from './value-advice.ts';

/** Options that say where this node is, and where everything else is: never a text with a gap in it. */
const FILLED_IN = /^(nodename|log_file_path|kv_\w+_file|orch\.\w+)$/;

/** Templates leave their words where nobody filled them in; as a name or a path they would be taken by their word. */
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
