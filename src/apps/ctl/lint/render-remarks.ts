import { never } from '../../../base/errors.ts';
import { type Edit, problemLine } from '../../../base/problem.ts';
import { placeAt } from '../documents.ts';
import { counted } from '../../../base/counted.ts';
import type { Repaired } from './fix.ts';
import type { PlacedRemark } from './placed-remark.ts';

/** Renders a line per remark, in the form that editors and terminals link to, and a summary. */
export function remarkTable(remarks: readonly PlacedRemark[], files: number): string {
  const errors = remarks.filter(({ severity }) => severity === 'error').length;
  const warnings = remarks.length - errors;
  const summary = `${counted(files, 'file')}: ${counted(errors, 'error')}, ${counted(warnings, 'warning')}\n`;
  return remarks.map((remark) => `${remarkLine(remark)}\n`).join('') + summary;
}

/** Omits the path of a warning, whose message already names it. */
function remarkLine({ severity, problem, file, region }: PlacedRemark): string {
  const text = severity === 'warning' ? problemLine({ ...problem, path: '' }) : problemLine(problem);
  return `${placeAt(file, region)}: ${severity}: ${text}`;
}

/** Returns the remarks as JSON output, with numeric positions. */
export function remarkJson(remarks: readonly PlacedRemark[], results: readonly Repaired[]): unknown {
  const fixed = results.flatMap(({ repairs }) => repairs.map(({ remark }) => remark));
  return [...fixed.map((remark) => shown(remark, true)), ...remarks.map((remark) => shown(remark, false))];
}

function shown({ severity, problem, file, region, replacements }: PlacedRemark, isFixed: boolean): unknown {
  const { fix: _, ...said } = problem;
  const place = placeAt(file, region);
  return { severity, ...said, place, file, ...region, fixable: replacements !== undefined, fixed: isFixed };
}

/** Renders the changes. A change that is not written yet is shown with its lines. */
export function repairLines({ source, repairs }: Repaired, fixes: 'leave' | 'show' | 'write'): string {
  return repairs
    .map(({ remark: { problem, region }, before, after }) => {
      const what = (problem.fix ?? []).map(describeEdit).join('; ');
      const line = `${placeAt(source.name, region)}: ${fixes === 'write' ? 'fixed' : 'would fix'}: ${what}\n`;
      return fixes === 'write' ? line : `${line}${marked('-', before)}${marked('+', after)}`;
    })
    .join('');
}

export function describeEdit(edit: Edit): string {
  switch (edit.kind) {
    case 'rename':
      return `rename ${edit.path} to ${edit.to}`;
    case 'set':
      return `set ${edit.path} to ${JSON.stringify(edit.value)}`;
    case 'remove':
      return `remove ${edit.path}`;
    default:
      return never(edit);
  }
}

function marked(mark: '-' | '+', text: string): string {
  return text === '' ? '' : text.replaceAll(/^.*$/gm, (line) => `${mark} ${line}`) + '\n';
}
