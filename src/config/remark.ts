import { type Findings, joinPaths, type Problem } from '../base/problem.ts';
import type { ErrorCode } from '../base/error-codes.ts';

/** An error or warning about a document. The message of a warning is a full sentence that names its subject. */
export interface Remark {
  readonly severity: RemarkSeverity;
  readonly problem: Problem;
}

export const REMARK_SEVERITIES = ['error', 'warning'] as const;
export type RemarkSeverity = (typeof REMARK_SEVERITIES)[number];

/** Converts findings in the part of a document at path `start` to remarks. */
export function remarksOf({ problems, warnings }: Findings, { start, code }: Inside): Remark[] {
  return [
    ...problems.map((problem): Remark => ({ severity: 'error', problem: moveInside(problem, start) })),
    ...warnings.map((warning): Remark => ({ severity: 'warning', problem: moveInside({ ...warning, code }, start) })),
  ];
}

export interface Inside {
  readonly start: string;
  /** The code of warnings. */
  readonly code: ErrorCode;
}

function moveInside(problem: Problem, start: string): Problem {
  const { fix } = problem;
  const moved = { ...problem, path: joinPaths(start, problem.path) };
  if (fix === undefined) return moved;
  return { ...moved, fix: fix.map((edit) => ({ ...edit, path: joinPaths(start, edit.path) })) };
}
