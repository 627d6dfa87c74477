import { NetplugError } from '../../../base/errors.ts';

/** Maximum number of reasons in one message. */
const SHOWN = 20;

/** Returns an error that lists all reasons. */
export function refused(what: 'import' | 'undo the import', reasons: readonly string[]): NetplugError {
  const more = reasons.length > SHOWN ? [`and ${String(reasons.length - SHOWN)} more`] : [];
  return new NetplugError('cli/import-refused', `Cannot ${what}: ${[...reasons.slice(0, SHOWN), ...more].join('; ')}`, {
    hint: 'Nothing was changed. Resolve these conflicts and repeat the command',
    facts: { reasons },
  });
}
