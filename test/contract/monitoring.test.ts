import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { createMetrics } from '../../src/apps/agent/metrics.ts';
import { createControllerMetrics } from '../../src/apps/controllers/metrics.ts';
import { dashboardExprs, readAlerts, readDashboard } from '../../scripts/monitoring-files.ts';
import { program } from '../support/components.ts';

interface Case {
  readonly alert_rule_test: {
    readonly alertname: string;
    readonly exp_alerts: { exp_annotations: Record<string, string> }[];
  }[];
}

const MANIFESTS = resolve('manifests/monitoring');
const RULES = join(MANIFESTS, 'alert-rules.yaml');
const folder = mkdtempSync(join(tmpdir(), 'netplug-monitoring-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe('the monitoring of netplug, by promtool', () => {
  it('has alert rules without a finding, the same ones for the operator', async () => {
    expect(await promtool(['check', 'rules', '--lint=all', '--lint-fatal', RULES])).toEqual([0, expect.anything()]);
    const groups = (parse(readFileSync(RULES, 'utf8')) as { groups: unknown }).groups;
    const objects = readFileSync(join(MANIFESTS, 'prometheus-operator.yaml'), 'utf8')
      .split('---\n')
      .slice(1)
      .map(parseObject);
    expect(objects.map(({ kind }) => kind)).toEqual(['PodMonitor', 'PodMonitor', 'PodMonitor', 'PrometheusRule']);
    expect(objects.at(-1)?.spec).toEqual({ groups });
  });

  it('has alerts that fire when they must, and not before', async () => {
    const { tests, ...rest } = parse(readFileSync('test/contract/alert-rules.yaml', 'utf8')) as { tests: Case[] };
    const cases = tests.flatMap((each) => each.alert_rule_test);
    for (const { alert: name, annotations } of readAlerts()) {
      const { description, runbook } = annotations;
      const own = cases.filter(({ alertname }) => alertname === name);
      const fires = new Set(own.map(({ exp_alerts: fired }) => fired.length > 0));
      expect({ name, fires }).toEqual({ name, fires: new Set([true, false]) });
      for (const fired of own.flatMap(({ exp_alerts: alerts }) => alerts))
        fired.exp_annotations = { ...fired.exp_annotations, description, runbook };
    }
    const file = join(folder, 'tests.yaml');
    writeFileSync(file, stringify({ ...rest, rule_files: [RULES], tests }));
    expect(await promtool(['test', 'rules', file])).toEqual([0, expect.stringContaining('SUCCESS')]);
  });

  it('has a valid scrape configuration for hosts', async () => {
    const [status, text] = await promtool(['check', 'config', join(MANIFESTS, 'scrape-hosts.yaml')]);
    expect(text).toContain('is valid prometheus config file syntax');
    expect(status).toBe(0);
  });

  it('has expressions in the dashboard that Prometheus can parse', async () => {
    const exprs = dashboardExprs(readDashboard());
    const rules = exprs.map((expr, index) => ({
      record: `panel:query:${String(index)}`,
      expr: expr.replaceAll('$__rate_interval', '5m').replaceAll(/\$\w+/g, '.*'),
    }));
    const file = join(folder, 'panels.yaml');
    writeFileSync(file, stringify({ groups: [{ name: 'panels', rules }] }));
    const [status, text] = await promtool(['check', 'rules', file]);
    expect(text).toContain(`${String(exprs.length)} rules found`);
    expect(status).toBe(0);
  });

  it('has metrics that keep to the conventions of Prometheus', async () => {
    using agent = createMetrics(async () => ({
      addresses: { pools: [], sizes: [], blocks: [] },
      waiting: 0,
      isDatastoreUp: true,
      network: undefined,
      problems: [],
      tokenSecondsLeft: undefined,
    }));
    using controllers = createControllerMetrics();
    for (const page of [agent, controllers])
      expect(await promtool(['check', 'metrics'], await page.render())).toEqual([0, '']);
  });
});

function parseObject(text: string): { readonly kind: string; readonly spec: unknown } {
  return parse(text) as { readonly kind: string; readonly spec: unknown };
}

/** Returns exit status and output. */
async function promtool(args: readonly string[], stdin = ''): Promise<[number, string]> {
  return new Promise((done) => {
    const child = execFile(program('promtool'), args, (error, stdout, stderr) =>
      done([typeof error?.code === 'number' ? error.code : error === null ? 0 : -1, `${stdout}${stderr}`]),
    );
    child.stdin?.end(stdin);
  });
}
