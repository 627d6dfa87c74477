import { NetplugError } from '../../../base/errors.ts';

/** As many reasons as one message takes. */
const SHOWN = 20;

/** Everything that stands against it, in one message. */
export function refused(what: 'import' | 'undo the import', reasons: readonly string[]): NetplugError {
  const more = reasons.length > SHOWN ? [`and ${String(reasons.length - SHOWN)} more`] : [];
  return new NetplugError('cli/import-refused', `Cannot ${what}: ${[...reasons.slice(0, SHOWN), ...more].join('; ')}`, {
    hint: 'Nothing was changed; put right what is named, and repeat the command',
    facts: { reasons },
  });
}
