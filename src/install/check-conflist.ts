import { isNetplugError, NetplugError } from '../base/errors.ts';
import { type Problem, problemLine, problemsError } from '../base/problem.ts';
import { lintNetconf } from '../config/lint-conflist.ts';
import { parseJsonObject } from '../config/parse-json.ts';

type Raw = Readonly<Record<string, unknown>>;

/**
 * Checks the text of a conflist as `netplugctl lint` does. Returns the warnings. Error messages quote nothing of the text:
 * a file given by mistake may hold a secret.
 * @throws netconf/invalid or the code that all problems share, cni/input-undecodable
 */
export function checkConflist(text: string, what: string): readonly string[] {
  const raw = readList(text, what);
  if (!Object.hasOwn(raw, 'plugins')) {
    throw new NetplugError('netconf/invalid', `Cannot use ${what}: it is not a list, "plugins" is missing`, {
      hint: 'Write a list such as examples/10-netplug.conflist',
    });
  }
  const problems: Problem[] = [];
  const warnings: string[] = [];
  for (const { severity, problem } of lintNetconf(raw)) {
    if (severity === 'error') problems.push(problem);
    else warnings.push(problemLine(problem));
  }
  if (problems.length > 0) throw problemsError(what, problems, 'netconf/invalid');
  return warnings;
}

function readList(text: string, what: string): Raw {
  try {
    return parseJsonObject(text);
  } catch (cause) {
    if (!isNetplugError(cause, 'cni/input-undecodable')) throw cause;
    const { line, column } = cause.facts;
    const where = line === undefined ? '' : `, from line ${String(line)}, column ${String(column)}`;
    throw new NetplugError('cni/input-undecodable', `Cannot use ${what}: it is not a JSON object${where}`, {
      hint: 'Write a list such as examples/10-netplug.conflist',
    });
  }
}
