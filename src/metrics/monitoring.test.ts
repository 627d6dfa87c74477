import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { dashboardExprs, readAlerts, readDashboard } from '../../scripts/monitoring-files.ts';
import { AGENT_SET } from '../install/cluster/names.ts';
import { CONTROLLERS } from '../model/automatic-host-endpoint.ts';
import { TYPHA } from '../model/typha.ts';
import { AGENT_METRICS } from './agent-metrics.ts';
import { CONTROLLER_METRICS } from './controller-metrics.ts';
import { TYPHA_METRICS } from './typha-metrics.ts';
import type { DeclaredMetric } from './declared.ts';

const DECLARED: Readonly<Record<string, DeclaredMetric>> = {
  ...AGENT_METRICS,
  ...CONTROLLER_METRICS,
  ...TYPHA_METRICS,
};
/** Labels that Prometheus adds to each target. */
const OF_TARGETS = ['job', 'instance', 'node', 'cluster'];
const ALERTS = readAlerts();
const EXPRS = [...ALERTS.map(({ expr }) => expr), ...dashboardExprs(readDashboard())];

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
    expect(new Set(ALERTS.map(({ alert }) => alert)).size).toBe(ALERTS.length);
    for (const { alert: name, expr, labels, annotations } of ALERTS) {
      const { summary, runbook } = annotations;
      expect(name).toMatch(/^Netplug[A-Z]\w+$/);
      expect(['warning', 'critical']).toContain(labels.severity);
      expect(runbook).toMatch(/^- .+\.(?:\n- .+\.)*$/);
      const shown = [...summary.matchAll(/\$labels\.(\w+)/g)].map(([, label = '']) => label);
      const kept = /by \(([^)]*)\)/.exec(expr)?.[1]?.split(', ') ?? OF_TARGETS;
      expect({ name, lost: shown.filter((label) => !kept.includes(label)) }).toEqual({ name, lost: [] });
    }
  });
});

describe('the dashboard', () => {
  const { panels, templating, ...rest } = readDashboard();

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

describe('the targets of Prometheus', () => {
  const monitors = parseAllDocuments(readFileSync('manifests/monitoring/prometheus-operator.yaml', 'utf8'))
    .map((document) => document.toJS() as unknown)
    .filter(isPodMonitor);
  const hosts = readFileSync('manifests/monitoring/scrape-hosts.yaml', 'utf8');

  it('are the pods of agent, controllers and fan-out, by the names that these have in a cluster', () => {
    const jobs = monitors.map(({ spec }) => spec.selector.matchLabels['app.kubernetes.io/name']);
    expect(jobs).toEqual([AGENT_SET, CONTROLLERS, TYPHA]);
    expect(monitors.map(({ spec }) => spec.podMetricsEndpoints[0].relabelings[0].regex)).toEqual([
      'agent',
      CONTROLLERS,
      TYPHA,
    ]);
  });

  it('are the jobs that alerts and dashboard ask for', () => {
    const jobs = EXPRS.flatMap((expr) => [...expr.matchAll(/job=~?"([^"]*)"/g)].map(([, job]) => job));
    expect(new Set(jobs)).toEqual(new Set([AGENT_SET, CONTROLLERS, TYPHA]));
    expect(hosts).toContain(`job_name: ${AGENT_SET}\n`);
  });

  it('have one port per program, because all programs use the network of a node', () => {
    const ports = monitors.map(({ spec }) => [
      ...new Set(
        spec.podMetricsEndpoints[0].relabelings.flatMap(
          ({ replacement }) => /:(\d+)$/.exec(replacement ?? '')?.[1] ?? [],
        ),
      ),
    ]);
    expect(ports).toEqual([['9097'], ['9096'], ['9092']]);
    expect(hosts.match(/:\d+$/gm)).toEqual([':9097', ':9097']);
  });
});

interface PodMonitor {
  readonly kind: 'PodMonitor';
  readonly spec: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly podMetricsEndpoints: readonly [
      { readonly relabelings: readonly [{ readonly regex: string; readonly replacement?: string }] },
    ];
  };
}

function isPodMonitor(object: unknown): object is PodMonitor {
  return (object as { readonly kind?: unknown }).kind === 'PodMonitor';
}

/** The metrics of netplug in an expression, each with the labels that a selector matches. */
function metricsIn(expr: string): { readonly name: string; readonly matched: readonly string[] }[] {
  return [...expr.matchAll(/\b(netplug_\w+)(?:\{([^}]*)\})?/g)].map(([, series = '', selector = '']) => ({
    name: series in DECLARED ? series : series.replace(/_(?:bucket|count|sum)$/, ''),
    matched: [...selector.matchAll(/(\w+)[=!]~?"/g)].map(([, label = '']) => label),
  }));
}
