import { NetplugError } from '../../../base/errors.ts';
import type { Mode } from '../../../base/mode.ts';
import type { Context } from '../ports.ts';

/** `ask` applies once the user has confirmed what is shown. */
export type ConfirmMode = Mode | 'ask';

export function confirmMode({ dryRun, yes }: { readonly dryRun: boolean; readonly yes: boolean }): ConfirmMode {
  return dryRun ? 'dry-run' : yes ? 'apply' : 'ask';
}

/** Asks the user, who must be at a terminal. @throws cli/usage without a terminal */
export async function confirm(
  { io, signal }: Context,
  question: string,
  instead = 'Add --yes, or see the plan with --dry-run',
): Promise<boolean> {
  if (!io.isTty) {
    throw new NetplugError('cli/usage', 'Cannot ask for confirmation: standard input is no terminal', {
      hint: instead,
    });
  }
  io.stderr(`${question} Type "yes" and end the input (Ctrl-D): `);
  return (await io.stdin(signal)).trim().toLowerCase() === 'yes';
}
