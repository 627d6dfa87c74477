import { describe, expect, it } from 'vitest';
import { AGENT_METRICS } from '../../metrics/agent-metrics.ts';
import { CONTROLLER_METRICS } from '../../metrics/controller-metrics.ts';
import type { DeclaredMetric } from '../../metrics/declared.ts';
import { ALERT_GROUPS } from './alerts.ts';
import { dashboardFile } from './dashboard.ts';
import { PANEL_SECTIONS } from './panels.ts';

const DECLARED: Readonly<Record<string, DeclaredMetric>> = { ...AGENT_METRICS, ...CONTROLLER_METRICS };
/** Labels that Prometheus adds to each target. */
const OF_TARGETS = ['job', 'instance', 'node', 'cluster'];
const ALERTS = ALERT_GROUPS.flatMap(({ alerts }) => alerts);
const EXPRS = [
  ...ALERTS.map(({ expr }) => expr),
  ...PANEL_SECTIONS.flatMap(({ panels }) => panels).flatMap(({ queries }) => queries.map(({ expr }) => expr)),
];

interface Placed {
  readonly id: number;
  readonly title: string;
  readonly gridPos: { readonly h: number; readonly w: number; readonly x: number; readonly y: number };
}

describe('alerts and dashboard', () => {
  it('use only declared metrics, with labels that these have', () => {
    const used = EXPRS.flatMap(metricsIn);
    expect(used.length).toBeGreaterThan(40);
    for (const { name, matched } of used) {
      expect(Object.keys(DECLARED)).toContain(name);
      const labels: readonly string[] = DECLARED[name]?.labels ?? [];
      const known = [...OF_TARGETS, ...labels];
      expect({ name, unknown: matched.filter((label) => !known.includes(label)) }).toEqual({ name, unknown: [] });
    }
  });

  it('show every declared metric', () => {
    const used = new Set(EXPRS.flatMap(metricsIn).map(({ name }) => name));
    expect(Object.keys(DECLARED).filter((name) => !used.has(name))).toEqual([]);
  });

  it('aggregate only by labels of targets and metrics', () => {
    const known = new Set([...OF_TARGETS, 'le', ...Object.values(DECLARED).flatMap(({ labels = [] }) => labels)]);
    const by = EXPRS.flatMap((expr) =>
      [...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(', ')),
    );
    expect(by.filter((label) => !known.has(label))).toEqual([]);
  });
});

describe('alerts', () => {
  it('have unique names, a runbook, and only labels in texts that their expression keeps', () => {
    expect(new Set(ALERTS.map(({ name }) => name)).size).toBe(ALERTS.length);
    for (const { name, expr, summary, runbook } of ALERTS) {
      expect(name).toMatch(/^Netplug[A-Z]\w+$/);
      expect(runbook.length).toBeGreaterThan(0);
      const shown = [...summary.matchAll(/\$labels\.(\w+)/g)].map(([, label = '']) => label);
      const kept = /by \(([^)]*)\)/.exec(expr)?.[1]?.split(', ') ?? OF_TARGETS;
      expect({ name, lost: shown.filter((label) => !kept.includes(label)) }).toEqual({ name, lost: [] });
    }
  });
});

describe('the dashboard', () => {
  const { panels, templating, ...rest } = JSON.parse(dashboardFile()) as {
    readonly panels: readonly Placed[];
    readonly templating: { readonly list: readonly { readonly name: string }[] };
    readonly uid: string;
    readonly schemaVersion: number;
  };

  it('has panels of unique ids that fit into 24 columns and do not overlap', () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, n) => `${String(x + (n % w))}/${String(y + Math.floor(n / w))}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    expect(panels.filter(({ gridPos: { x, w } }) => x + w > 24)).toEqual([]);
  });

  it('declares each variable that a query uses', () => {
    expect(rest).toMatchObject({ uid: 'netplug', schemaVersion: 39 });
    const used = new Set([...JSON.stringify(panels).matchAll(/\$\{?([a-z]\w*)/g)].map(([, name = '']) => name));
    expect([...used].toSorted()).toEqual(templating.list.map(({ name }) => name).toSorted());
  });
});

/** The metrics of netplug in an expression, each with the labels that a selector matches. */
function metricsIn(expr: string): { readonly name: string; readonly matched: readonly string[] }[] {
  return [...expr.matchAll(/\b(netplug_\w+)(?:\{([^}]*)\})?/g)].map(([, series = '', selector = '']) => ({
    name: series in DECLARED ? series : series.replace(/_(?:bucket|count|sum)$/, ''),
    matched: [...selector.matchAll(/(\w+)[=!]~?"/g)].map(([, label = '']) => label),
  }));
}
