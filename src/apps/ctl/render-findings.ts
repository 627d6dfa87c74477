import { counted } from '../../base/counted.ts';
import { type CheckInfo, type Finding, SEVERITIES, type Severity } from '../../checks/check.ts';
import { visibleText } from '../../base/visible-text.ts';
import { painterFor, PLAIN, type Screen, type Style } from './screen.ts';

const STYLES: Readonly<Record<Severity, Style>> = { error: 'red', warning: 'yellow', note: 'cyan' };

/** Renders a finding as the lines of a paragraph. */
export function findingLines(finding: Finding, screen: Screen): readonly string[] {
  const { id, severity, found, objects = [], expected, remedy, command } = finding;
  const indent = ' '.repeat(9);
  return [
    `${painterFor(screen)(STYLES[severity], severity.padEnd(7))}  ${id}: ${visibleText(found)}`,
    ...(objects.length === 0 ? [] : [`${indent}objects: ${visibleText(objects.join(', '))}`]),
    `${indent}expected: ${expected}`,
    `${indent}remedy: ${visibleText(remedy)}`,
    ...(command === undefined ? [] : [`${indent}  $ ${visibleText(command)}`]),
  ];
}

/** Renders findings as paragraphs, the severe ones first. */
export function renderFindings(findings: readonly Finding[], screen: Screen = PLAIN): string {
  const ordered = SEVERITIES.flatMap((level) => findings.filter(({ severity }) => severity === level));
  return ordered
    .flatMap((finding) => findingLines(finding, screen))
    .map((line) => `${line}\n`)
    .join('');
}

/** Returns how many findings there are of each severity, such as `1 error, 2 notes`. */
export function countFindings(findings: readonly CheckInfo[]): string {
  return SEVERITIES.map((level) => [level, findings.filter(({ severity }) => severity === level).length] as const)
    .filter(([, count]) => count > 0)
    .map(([level, count]) => counted(count, level))
    .join(', ');
}
