import { counted } from '../../../base/counted.ts';
import type { Finding } from '../../../checks/check.ts';
import { countFindings, findingLines } from '../render-findings.ts';
import { visibleText } from '../../../base/visible-text.ts';
import { painterFor, type Screen } from '../screen.ts';
import type { Diagnosis } from './examine.ts';

/** Renders the diagnosis as text: one paragraph per area, then a summary. */
export function renderDoctor({ examined, leftOut }: Diagnosis, screen: Screen): string {
  const paint = painterFor(screen);
  const lines = examined.flatMap(({ area, measured, findings }) => [
    [paint('bold', area), ...(measured.length === 0 ? [] : [paint('dim', visibleText(measured.join(' · ')))])].join(
      '  ',
    ),
    ...findings.flatMap((finding) => findingLines(finding, screen)).map((line) => `  ${line}`),
  ]);
  const out = [...Map.groupBy(leftOut, ({ why }) => why)].map(
    ([why, areas]) => `left out: ${areas.map(({ area }) => area).join(', ')} (${why})`,
  );
  const counts = countFindings(allFindings({ examined, leftOut }));
  const summary = `examined ${counted(examined.length, 'area')}: ${counts === '' ? 'no problems found' : counts}`;
  return [...lines, ...out, summary, ''].join('\n');
}

export function allFindings({ examined }: Diagnosis): readonly Finding[] {
  return examined.flatMap(({ findings }) => findings);
}
