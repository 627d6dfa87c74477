import { isNetplugError } from '../../../base/errors.ts';
import type { Mode } from '../../../base/mode.ts';
import { type ResourceId, showResourceId } from '../../../model/resource-id.ts';
import type { Context, Status } from '../ports.ts';
import { reportError } from '../../../base/report-error.ts';
import { counted } from '../../../base/counted.ts';

export interface BatchItem {
  readonly which: ResourceId;
  /** Does it, and says in few words what was done. */
  readonly run: () => Promise<string>;
}

/**
 * Runs the items one after the other, and prints a line for each. Reports a failure and continues, unless the datastore is
 * unavailable; the last line counts the failures. The status is that of the first failure.
 */
export async function runBatch({ io }: Pick<Context, 'io'>, items: readonly BatchItem[], mode: Mode): Promise<Status> {
  const statuses: Status[] = [];
  for (const [index, { which, run }] of items.entries()) {
    const what = showResourceId(which);
    try {
      io.stdout(`${what} ${await run()}${mode === 'dry-run' ? ' (dry run)' : ''}\n`);
    } catch (cause) {
      // Most messages name the resource themselves.
      const isNamed = cause instanceof Error && cause.message.includes(what);
      statuses.push(reportError(io, cause, isNamed ? undefined : what));
      const left = items.length - index - 1;
      if (left === 0 || !isNetplugError(cause, 'store/unavailable', 'store/refused', 'store/config-invalid')) continue;
      io.stderr(`${counted(left, 'resource')} not tried\n`);
      break;
    }
  }
  if (statuses.length > 0 && items.length > 1) {
    io.stderr(`${String(statuses.length)} of ${String(items.length)} failed\n`);
  }
  return statuses[0] ?? 0;
}
