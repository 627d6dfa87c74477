// Reads alerts and dashboard, which are kept in manifests/monitoring, and repeats the alerts for the Prometheus operator.
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

/** An alert of Prometheus. The test by promtool checks that every alert has these fields. */
export interface Alert {
  readonly alert: string;
  readonly expr: string;
  /** How long the expression must hold. */
  readonly for: string;
  readonly labels: { readonly severity: string };
  /** `runbook` has a step per line, as a Markdown list. */
  readonly annotations: { readonly summary: string; readonly description: string; readonly runbook: string };
}

export interface Panel {
  readonly id: number;
  readonly title: string;
  readonly gridPos: { readonly h: number; readonly w: number; readonly x: number; readonly y: number };
  /** None in the heading of a row. */
  readonly targets?: readonly { readonly expr: string }[];
}

export interface Dashboard {
  readonly uid: string;
  readonly schemaVersion: number;
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string }[] };
}

const FOLDER = 'manifests/monitoring';

/** Returns every alert. */
export function readAlerts(): readonly Alert[] {
  // Our own file, whose form the tests check.
  const { groups } = parse(readFileSync(`${FOLDER}/alert-rules.yaml`, 'utf8')) as {
    readonly groups: readonly { readonly rules: readonly Alert[] }[];
  };
  return groups.flatMap(({ rules }) => rules);
}

/** Returns the dashboard of Grafana. */
export function readDashboard(): Dashboard {
  // Our own file, whose form the tests check.
  return JSON.parse(readFileSync(`${FOLDER}/dashboard.json`, 'utf8')) as Dashboard;
}

/** Returns every expression of the dashboard. */
export function dashboardExprs({ panels }: Dashboard): readonly string[] {
  return panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
}

/** Returns the manifest for the Prometheus operator with the groups of alert-rules.yaml in its PrometheusRule, the last object. */
export function operatorManifest(): string {
  const [objects = ''] = readFileSync(`${FOLDER}/prometheus-operator.yaml`, 'utf8').split(/^ {2}groups:$/m);
  const [, rules = ''] = readFileSync(`${FOLDER}/alert-rules.yaml`, 'utf8').split(/^groups:$/m);
  return `${objects}  groups:${rules.replaceAll(/^(?=.)/gm, '  ')}`;
}
