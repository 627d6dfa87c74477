import { VERSION } from '../../base/version.ts';
import type { CheckInfo, Finding, Severity } from '../../checks/check.ts';

/** A rule by which results are grouped. */
export interface SarifRule {
  readonly id: string;
  readonly [field: string]: unknown;
}

export interface SarifResult {
  readonly rule: string;
  readonly level: Severity;
  readonly text: string;
  readonly location: object;
  readonly fixes?: readonly object[] | undefined;
}

/** Returns a log of the Static Analysis Results Interchange Format (SARIF), version 2.1.0. */
export function sarifLog(command: string, rules: readonly SarifRule[], results: readonly SarifResult[]): object {
  const driver = { name: `netplugctl ${command}`, semanticVersion: VERSION.replace(/^v/, ''), rules };
  const shown = results.map(({ rule, level, text, location, fixes }) => ({
    ruleId: rule,
    ruleIndex: rules.findIndex(({ id }) => id === rule),
    level,
    message: { text },
    locations: [location],
    ...(fixes === undefined ? {} : { fixes }),
  }));
  return {
    $schema: 'https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json',
    version: '2.1.0',
    runs: [{ tool: { driver }, columnKind: 'utf16CodeUnits', results: shown }],
  };
}

/** Returns findings about a cluster as SARIF: its objects have no file, so that their locations are logical. */
export function findingLog(command: string, checks: readonly CheckInfo[], findings: readonly Finding[]): object {
  const rules = checks.map(({ id, severity, expected }) => ({
    id,
    shortDescription: { text: `Expects ${expected}.` },
    defaultConfiguration: { level: severity },
  }));
  const results = findings.map(({ id, severity, found, remedy, objects = [] }) => ({
    rule: id,
    level: severity,
    text: `${found}. ${remedy}.`,
    location: { logicalLocations: objects.map((name) => ({ fullyQualifiedName: name, kind: 'object' })) },
  }));
  return sarifLog(command, rules, results);
}
