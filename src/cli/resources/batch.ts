import { isNetplugError } from '../../base/errors.ts';
import type { Context, Status } from '../ports.ts';
import { reportError } from '../report-error.ts';
import { counted } from '../table.ts';

export interface Item {
  readonly kind: string;
  readonly name: string;
  /** Does it, and says in one word what was done. */
  readonly run: () => Promise<string>;
}

/**
 * Does one thing after the other, a line for each. A failure is told and the rest goes on, unless the datastore itself
 * does not answer. The status is that of the first failure.
 */
export async function runBatch({ io }: Pick<Context, 'io'>, items: readonly Item[]): Promise<Status> {
  let status: Status = 0;
  for (const [index, { kind, name, run }] of items.entries()) {
    const what = `${kind} "${name}"`;
    try {
      io.stdout(`${what} ${await run()}\n`);
    } catch (cause) {
      // Most messages name the resource themselves.
      const isNamed = cause instanceof Error && cause.message.includes(what);
      const ofThis = reportError(io, cause, isNamed ? undefined : what);
      if (status === 0) status = ofThis;
      const left = items.length - index - 1;
      if (left === 0 || !isNetplugError(cause, 'store/unavailable', 'store/refused', 'store/config-invalid')) continue;
      io.stderr(`${counted(left, 'resource')} not tried\n`);
      break;
    }
  }
  return status;
}
