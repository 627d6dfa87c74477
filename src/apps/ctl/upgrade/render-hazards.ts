import { type Finding, hasErrors } from '../../../checks/check.ts';
import { renderFindings } from '../render-findings.ts';
import type { Screen } from '../screen.ts';

/** Fields that an upgrade takes from others cannot be guessed from its steps, so that they are shown first. */
const LOST_FIELDS = 'objects/fields-lost';

/** Renders the hazards of a preflight, and whether they refuse the upgrade. */
export function renderHazards(hazards: readonly Finding[], screen?: Screen): string {
  if (hazards.length === 0) return 'no hazards found\n';
  const { lost = [], rest = [] } = Object.groupBy(hazards, ({ id }) => (id === LOST_FIELDS ? 'lost' : 'rest'));
  const verdict = hasErrors(hazards) ? 'the upgrade is refused until the errors are gone' : 'the upgrade may begin';
  return `${renderFindings(lost, screen)}${renderFindings(rest, screen)}${verdict}\n`;
}
