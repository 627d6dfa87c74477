import { harmless, painterFor, type Screen, type Style } from '../screen.ts';
import { counted } from '../../../base/counted.ts';
import type { Diagnosis } from './examine.ts';
import { type Finding, SEVERITIES, type Severity } from './topic.ts';

const STYLES: Readonly<Record<Severity, Style>> = { error: 'red', warning: 'yellow', note: 'cyan' };

/** Renders the diagnosis as text: one paragraph per area, then a summary. */
export function renderDoctor({ examined, leftOut }: Diagnosis, screen: Screen): string {
  const paint = painterFor(screen);
  const lines = examined.flatMap(({ area, measured, findings }) => [
    [paint('bold', area), ...(measured.length === 0 ? [] : [paint('dim', harmless(measured.join(' · ')))])].join('  '),
    ...findings.flatMap(({ id, severity, found, expected, remedy, command }) => [
      `  ${paint(STYLES[severity], severity.padEnd(7))}  ${id}: ${harmless(found)}`,
      `           expected: ${expected}`,
      `           remedy: ${harmless(remedy)}`,
      ...(command === undefined ? [] : [`             $ ${harmless(command)}`]),
    ]),
  ]);
  const out = [...Map.groupBy(leftOut, ({ why }) => why)].map(
    ([why, areas]) => `left out: ${areas.map(({ area }) => area).join(', ')} (${why})`,
  );
  return [...lines, ...out, summary({ examined, leftOut }), ''].join('\n');
}

export function allFindings({ examined }: Diagnosis): readonly Finding[] {
  return examined.flatMap(({ findings }) => findings);
}

function summary(diagnosis: Diagnosis): string {
  const findings = allFindings(diagnosis);
  const counts = SEVERITIES.map((severity) => [findings.filter((each) => each.severity === severity).length, severity])
    .filter(([count]) => count !== 0)
    .map(([count, severity]) => counted(Number(count), String(severity)));
  return `examined ${counted(diagnosis.examined.length, 'area')}: ${counts.length === 0 ? 'no problems found' : counts.join(', ')}`;
}
