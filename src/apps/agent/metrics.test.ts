import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { memoryNode } from '../../../test/support/memory-node.ts';
import { until } from '../../../test/support/until.ts';
import type { NetworkStanding } from './network-gauges.ts';
import { createMetrics, type Metrics, type AgentStanding } from './metrics.ts';

const STANDING: AgentStanding = {
  addresses: {
    pools: [{ pool: 'blue', free: 60, held: 3, preallocated: 1 }],
    sizes: [{ pool: 'blue', size: 1024 }],
    blocks: [{ pool: 'blue', block: '10.65.0.0/26', free: 60, held: 3, preallocated: 1 }],
  },
  waiting: 7,
  isDatastoreUp: true,
  network: {
    routes: { blackhole: 2, direct: 3, tunnelled: 4 },
    peers: 5,
    changes: 6,
    comparisons: 1,
    restoredLinks: 2,
    closedPolicies: 2,
    policyLagSeconds: 7.5,
    sidecars: { states: { waiting: 0, unproven: 1, guarding: 3, lapsed: 0 }, closed: 1 },
    flows: {
      packets: [{ verdict: 'denied', policy: 'NetworkPolicy shop/web', direction: 'ingress', packets: 8 }],
      lostReports: 9,
      requests: [{ verdict: 'denied', policy: 'NetworkPolicy shop/web', count: 5 }],
    },
  },
  problems: [{ code: 'network/bgp', severity: 'warning', text: 'no session' }],
  tokenSecondsLeft: 5400,
};

describe('the metrics', () => {
  it('count calls by verb and outcome, and sum their phases', async () => {
    using metrics = newMetrics();
    const node = await memoryNode({ input: 10, setup: 0, gate: 0, store: 100 });
    for (const verb of ['ADD', 'DEL', 'FLY']) metrics.observeCall((await node.call(verb)).record);
    metrics.setCallsInFlight(2);
    const text = await metrics.render();
    expect(text).toContain('netplug_calls_total{command="ADD",code="ok"} 1');
    expect(text).toContain('netplug_calls_total{command="unknown",code="cni/env-invalid"} 1');
    expect(text).toContain('netplug_calls_in_flight 2');
    expect(text).toContain('netplug_call_phase_duration_seconds_sum{phase="input"} 0.02');
    expect(text).toMatch(/netplug_call_duration_seconds_sum\{command="ADD"\} 0\.\d+/);
    expect(text).toContain('netplug_call_duration_seconds_bucket{le="0.05",command="ADD"} 0');
  });

  it('show the state at the scrape, without blocks that were removed', async () => {
    let standing = STANDING;
    using metrics = createMetrics(async () => standing);
    const text = await metrics.render();
    expect(text).toContain('netplug_pool_addresses{pool="blue",state="free"} 60');
    expect(text).toContain('netplug_pool_size{pool="blue"} 1024');
    expect(text).toContain('netplug_block_addresses{pool="blue",block="10.65.0.0/26",state="preallocated"} 1');
    expect(text).toContain('netplug_routes{hop="tunnelled"} 4');
    const labels = 'verdict="denied",policy="NetworkPolicy shop/web",direction="ingress"';
    expect(text).toContain(`netplug_policy_packets_total{${labels}} 8`);
    expect(text).toContain('netplug_policies_closed 2');
    expect(text).toContain('netplug_policy_lag_seconds 7.5');
    expect(text).toContain('netplug_node_problems{severity="warning"} 1');
    expect(text).toContain('netplug_sidecars{state="guarding"} 3');
    expect(text).toContain('netplug_sidecars_closed 1');
    expect(text).toContain('netplug_requests_total{verdict="denied",policy="NetworkPolicy shop/web"} 5');
    expect(text).toContain('netplug_policy_reports_lost_total 9');
    expect(text).toContain('netplug_cni_token_expiry_seconds 5400');
    expect(text).toMatch(/\nnetplug_pending_writes 7\n[^]*\nnetplug_datastore_up 1\n/);
    standing = {
      addresses: { pools: [], sizes: [], blocks: [] },
      waiting: 0,
      isDatastoreUp: false,
      network: undefined,
      problems: [],
      tokenSecondsLeft: -1,
    };
    expect(text).toContain('netplug_cni_token_expiry_seconds 5400');
    const later = await metrics.render();
    expect(later).toContain('netplug_node_problems{severity="warning"} 0');
    expect(later).toContain('netplug_cni_token_expiry_seconds -1');
    expect(later).not.toContain('netplug_pool_addresses{');
    expect(later).toContain('netplug_cni_token_expiry_seconds -1');
    expect(later).toMatch(/\nnetplug_pending_writes 0\n[^]*\nnetplug_datastore_up 0\n/);
  });

  it('have no expiry of a token while the agent renews none', async () => {
    using metrics = createMetrics(async () => ({ ...STANDING, tokenSecondsLeft: undefined }));
    expect(await metrics.render()).not.toMatch(/^netplug_cni_token_expiry_seconds/m);
  });

  it('count packets of policies at each scrape, and those beyond a limit together', async () => {
    const packetsOf = (policy: string) => ({ verdict: 'denied', policy, direction: 'egress', packets: 1 }) as const;
    const network = STANDING.network as NetworkStanding;
    const packets = Array.from({ length: 600 }, (_, index) => packetsOf(`p${String(index)}`));
    using metrics = createMetrics(async () => ({
      ...STANDING,
      network: { ...network, flows: { packets, lostReports: 0, requests: [] } },
    }));
    await metrics.render();
    const text = await metrics.render();
    expect(text.match(/^netplug_policy_packets_total\{/gm)).toHaveLength(501);
    expect(text).toContain('policy="other",direction="egress"} 100');
  });

  it('count how policies stood when ADD returned, from 0 on so that Prometheus sees the first one', async () => {
    using metrics = newMetrics();
    const before = await metrics.render();
    metrics.countIsolation('not enforced');
    const after = await metrics.render();
    for (const outcome of ['enforced', 'delayed', 'not-enforced'])
      expect(before).toContain(`netplug_policy_enforcements_total{outcome="${outcome}"} 0`);
    expect(after).toContain('netplug_policy_enforcements_total{outcome="not-enforced"} 1');
  });

  it('include the event-loop lag', async () => {
    using metrics = newMetrics();
    // Longer than the interval between two samples.
    const endMs = performance.now() + 6000;
    while (performance.now() < endMs);
    let lateSeconds = 0;
    await until(async () => {
      const text = await metrics.render();
      lateSeconds = Number(/netplug_event_loop_delay_seconds\{percentile="100"\} (\S+)/.exec(text)?.[1]);
      return lateSeconds > 0.3;
    }, 'the delay shows');
    // In seconds, not in milliseconds.
    expect(lateSeconds).toBeLessThan(600);
  });

  it('are documented in docs/netplug-agent.md', async () => {
    const page = readFileSync('docs/netplug-agent.md', 'utf8');
    const documented = [...page.matchAll(/^\| `(netplug_\w+)` +\| (\w+) +\| ([^|]*?) +\|/gm)].map((row) =>
      row.slice(1),
    );
    using metrics = newMetrics();
    everythingOn(metrics);
    expect(documented).not.toEqual([]);
    expect(documented.toSorted()).toEqual(describeMetrics(await metrics.render()).toSorted());
  });
});

function newMetrics(): Metrics {
  return createMetrics(async () => STANDING);
}

function everythingOn(metrics: Metrics): void {
  metrics.observeCall({
    program: 'netplug',
    command: 'ADD',
    identity: {},
    startedAt: 0,
    totalMs: 1,
    phases: [{ name: 'store', startMs: 0, durationMs: 1, isFailed: false }],
    failure: undefined,
    parent: undefined,
  });
  metrics.observeJournalSync(1);
  metrics.observeLockWait('journal', 1);
  metrics.observeWriteWait(1);
}

/** Name, kind and labels of every metric in the text format. */
function describeMetrics(text: string): string[][] {
  return [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name = '', kind = '']) => {
    const [, inner = ''] = new RegExp(`^${name}(?:_count)?(?:\\{(.*)\\})? `, 'm').exec(text) ?? [];
    const labels = [...inner.matchAll(/(\w+)="/g)].map(([, label]) => `\`${label ?? ''}\``);
    return [name, kind, labels.join(', ')];
  });
}
