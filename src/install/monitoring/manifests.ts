import { stringify } from 'yaml';
import { ALERT_GROUPS, type Alert } from './alerts.ts';
import { AGENT_TARGET, CONTROLLER_TARGET, type ScrapeTarget } from './targets.ts';

const NAMESPACE = 'netplug-system';
const NOTE = '# Made by scripts/check-generated.ts from src/install/monitoring: change it there.\n';
const LINE = 116;
const INTERVAL = '30s';

/** The file of the objects that the Prometheus operator reads: two PodMonitors and the alerts. */
export function monitoringManifestFile(): string {
  const objects = [podMonitor(AGENT_TARGET), podMonitor(CONTROLLER_TARGET), prometheusRule()];
  const about = `# For clusters with the Prometheus operator; docs/monitoring.md says what to set for it.\n`;
  return `${NOTE}${about}${objects.map((object) => `---\n${yamlText(object)}`).join('')}`;
}

/** The file of alerts for a Prometheus that is configured by files. */
export function alertRulesFile(): string {
  return `${NOTE}# For a Prometheus without an operator: name it in rule_files.\n${yamlText({ groups: ruleGroups() })}`;
}

/** The scrape configuration for agents on hosts, for a Prometheus that is configured by files. */
export function scrapeConfigFile(): string {
  const config = {
    rule_files: ['alert-rules.yaml'],
    scrape_configs: [
      {
        job_name: AGENT_TARGET.job,
        scrape_interval: INTERVAL,
        static_configs: [
          { targets: [`10.0.0.11:${String(AGENT_TARGET.port)}`], labels: { node: 'node-1' } },
          { targets: [`10.0.0.12:${String(AGENT_TARGET.port)}`], labels: { node: 'node-2' } },
        ],
      },
    ],
  };
  const about =
    '# An example for hosts without an orchestrator. The alerts need these job names and the label "node".\n';
  return `${NOTE}${about}${yamlText(config)}`;
}

/**
 * Selects the pods by name and asks each at its own address. The pods declare no port: a port of a pod in the network of
 * its host would keep the next agent from starting beside the old one during an update.
 */
function podMonitor({ job, container, port }: ScrapeTarget): object {
  return {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PodMonitor',
    metadata: metadata(job),
    spec: {
      jobLabel: 'app.kubernetes.io/name',
      selector: { matchLabels: { 'app.kubernetes.io/name': job } },
      podMetricsEndpoints: [
        {
          path: '/metrics',
          interval: INTERVAL,
          relabelings: [
            { action: 'keep', sourceLabels: ['__meta_kubernetes_pod_container_name'], regex: container },
            addressOf('([^:]+)', `$1:${String(port)}`),
            addressOf('(.*:.*)', `[$1]:${String(port)}`),
            { action: 'replace', sourceLabels: ['__meta_kubernetes_pod_node_name'], targetLabel: 'node' },
          ],
        },
      ],
    },
  };
}

function addressOf(regex: string, replacement: string): object {
  const targetLabel = '__address__';
  return { action: 'replace', sourceLabels: ['__meta_kubernetes_pod_ip'], regex, targetLabel, replacement };
}

function prometheusRule(): object {
  return {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: metadata('netplug'),
    spec: { groups: ruleGroups() },
  };
}

function metadata(name: string): object {
  return {
    name,
    namespace: NAMESPACE,
    labels: { 'app.kubernetes.io/name': name, 'app.kubernetes.io/part-of': 'netplug' },
  };
}

function ruleGroups(): readonly object[] {
  return ALERT_GROUPS.map(({ name, alerts }) => ({ name, rules: alerts.map(alertRule) }));
}

function alertRule({ name, expr, holdsFor, severity, summary, description, runbook }: Alert): object {
  return {
    alert: name,
    expr,
    for: holdsFor,
    labels: { severity },
    annotations: { summary, description, runbook: runbook.map((step) => `- ${step}`).join('\n') },
  };
}

function yamlText(object: object): string {
  return stringify(object, { lineWidth: LINE, aliasDuplicateObjects: false });
}
