import { sha256Of } from '../../base/sha256.ts';
import type { Random } from '../../base/random.ts';

/** The machine and boot of a run of the agent. */
export interface Host {
  /** Identifies the machine together with its state folder, where the journals lie. */
  readonly machine: string;
  /** Identifies the time since the machine was started. */
  readonly boot: string;
}

/** Returns an id for one run of the agent: `<machine>-<boot>-<a part that never repeats>`. */
export function newRunId({ machine, boot }: Host, random: Random): string {
  return [digest(machine), digest(boot), random.id()].join('-');
}

/** Reports whether the run took place on this machine, in any boot. */
export function isOnMachine(run: string, { machine }: Host): boolean {
  return run.startsWith(`${digest(machine)}-`);
}

/** Reports whether the run took place on this machine since its last boot, so that its pods may be alive. */
export function isOfBoot(run: string, { machine, boot }: Host): boolean {
  return run.startsWith(`${digest(machine)}-${digest(boot)}-`);
}

function digest(text: string): string {
  return sha256Of(text).slice(0, 8);
}
