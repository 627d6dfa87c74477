import type { Mode } from '../../../base/mode.ts';
import type { Output } from '../common-options.ts';
import type { PartKind } from '../../../install/host/part.ts';
import type { Io } from '../ports.ts';

/** Says of something that it went, or that it would go. */
export const REMOVED: Readonly<Record<Mode, string>> = { 'carry-out': 'removed', rehearse: 'would be removed' };

/** One thing that was done, or found done already. */
export interface InstallStep {
  readonly kind: 'executable' | 'kubeconfig' | 'conflist' | 'record' | 'folder' | 'agent' | 'node' | PartKind;
  /** Path, or what else names it. */
  readonly subject: string;
  readonly done: string;
}

export interface Report extends Disposable {
  step(step: InstallStep): void;
  warn(text: string): void;
}

/** A line for each step when it is done; as JSON one document at the end, also when the rest failed. */
export function openReport(io: Io, output: Output): Report {
  const steps: InstallStep[] = [];
  return {
    step: (step) => {
      steps.push(step);
      if (output === 'table') io.stdout(`${step.kind} "${step.subject}" ${step.done}\n`);
    },
    warn: (text) => {
      io.stderr(`warning: ${text}\n`);
    },
    [Symbol.dispose]: () => {
      if (output === 'json') io.stdout(`${JSON.stringify({ steps }, undefined, 2)}\n`);
    },
  };
}
