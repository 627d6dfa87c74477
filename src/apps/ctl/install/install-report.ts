import type { Mode } from '../../../base/mode.ts';
import type { Output } from '../common-options.ts';
import type { PartKind } from '../../../install/host/part.ts';
import type { RecordedFile } from '../../../install/record.ts';
import type { Io } from '../ports.ts';
import { visibleText } from '../../../base/visible-text.ts';
import { jsonText } from '../render-document.ts';

/** The word for a removal, by mode. */
export const REMOVED: Readonly<Record<Mode, string>> = { apply: 'removed', 'dry-run': 'would be removed' };

/** A step that was carried out, or was done already. */
export interface InstallStep {
  readonly kind: RecordedFile['kind'] | 'record' | 'folder' | 'agent' | 'server' | 'node' | 'chain' | PartKind;
  /** Path or name of the object. */
  readonly subject: string;
  readonly done: string;
}

export interface Report extends Disposable {
  step(step: InstallStep): void;
  warn(text: string): void;
}

/** Prints a line for each finished step; as JSON, one document at the end, even after a failure. */
export function openReport(io: Io, output: Output): Report {
  const steps: InstallStep[] = [];
  return {
    step: (step) => {
      steps.push(step);
      if (output === 'table') io.stdout(`${step.kind} "${visibleText(step.subject)}" ${step.done}\n`);
    },
    warn: (text) => {
      io.stderr(`warning: ${visibleText(text)}\n`);
    },
    [Symbol.dispose]: () => {
      if (output === 'json') io.stdout(jsonText({ steps }));
    },
  };
}
