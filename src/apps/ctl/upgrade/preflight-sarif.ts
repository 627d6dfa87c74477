import { VERSION } from '../../../base/version.ts';
import type { FoundHazard, HazardSeverity } from '../../../upgrade/cluster/checks/check.ts';
import { PREFLIGHT_CHECKS } from '../../../upgrade/cluster/checks/preflight.ts';
import { SARIF_SCHEMA } from '../lint/sarif.ts';

const LEVELS: Readonly<Record<HazardSeverity, 'error' | 'warning' | 'note'>> = {
  block: 'error',
  warning: 'warning',
  note: 'note',
};

/** Returns the hazards as a SARIF log: objects of a cluster have no file, so that their locations are logical. */
export function hazardLog(hazards: readonly FoundHazard[]): unknown {
  const rules = PREFLIGHT_CHECKS.map(({ id, severity, expected }) => ({
    id,
    shortDescription: { text: `Expects ${expected}.` },
    defaultConfiguration: { level: LEVELS[severity] },
  }));
  return {
    $schema: SARIF_SCHEMA,
    version: '2.1.0',
    runs: [
      {
        tool: {
          driver: { name: 'netplugctl upgrade preflight', semanticVersion: VERSION.replace(/^v/, ''), rules },
        },
        results: hazards.map(({ id, severity, found, remedy, evidence }) => ({
          ruleId: id,
          ruleIndex: rules.findIndex((rule) => rule.id === id),
          level: LEVELS[severity],
          message: { text: `${found}. ${remedy}.` },
          locations: [{ logicalLocations: evidence.map((name) => ({ fullyQualifiedName: name, kind: 'object' })) }],
        })),
      },
    ],
  };
}
