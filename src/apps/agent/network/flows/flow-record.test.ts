import { describe, expect, it } from 'vitest';
import type { RuleOrigin } from '../../../../policy/ruleset/policy-ruleset.ts';
import { FlowRecord, type ObservedFlow } from './flow-record.ts';

const QUESTION = { verdicts: ['denied' as const] };
const flowOf = (more: Partial<ObservedFlow> = {}): ObservedFlow => ({
  verdict: 'denied',
  source: { address: '10.0.0.1', pod: 'shop/web' },
  destination: { address: '10.0.0.2', pod: 'shop/db' },
  protocol: 6,
  port: 80,
  ...more,
});
const noRule = (): undefined => undefined;
const to = (address: string): Partial<ObservedFlow> => ({ destination: { address } });

describe('the record of flows', () => {
  it('merges what has the same ends, protocol and port, and keeps first and last time', () => {
    const record = new FlowRecord();
    expect(record.add({ flow: flowOf(), group: 'a', count: 1 }, 1000, noRule)).toBe(true);
    expect(record.add({ flow: flowOf(), group: 'a', count: 2 }, 61_000, noRule)).toBe(false);
    expect(record.list(QUESTION, 61_000)).toEqual([
      { ...flowOf(), count: 3, firstSeen: '1970-01-01T00:00:01Z', lastSeen: '1970-01-01T00:01:01Z' },
    ]);
  });

  it.each([
    ['port', { port: 81 }],
    ['destination', to('10.0.0.3')],
    ['pod with the same address', { source: { address: '10.0.0.1', pod: 'shop/other' } }],
    ['protocol', { protocol: 17 }],
    ['verdict', { verdict: 'logged' }],
  ] as const)('does not merge flows of another %s', (_, more) => {
    const record = new FlowRecord();
    for (const flow of [flowOf(), flowOf(more)]) record.add({ flow, group: 'a', count: 1 }, 0, noRule);
    expect(record.list({ verdicts: ['denied', 'logged'] }, 0)).toHaveLength(2);
  });

  it('merges the ports of a scan into one flow without a port', () => {
    const record = new FlowRecord();
    for (let port = 1; port <= 1000; port += 1)
      record.add({ flow: flowOf({ port }), group: 'a', count: 1 }, port, noRule);
    const flows = record.list(QUESTION, 1000);
    expect(flows).toHaveLength(17);
    expect(flows.at(-1)).toEqual(expect.objectContaining({ count: 984 }));
    expect(flows.at(-1)).not.toHaveProperty('port');
  });

  it('forgets the oldest flows of the largest group when there are too many', () => {
    const record = new FlowRecord({ maxFlows: 10, maxPorts: 4, keepMs: 1_000_000 });
    record.add({ flow: flowOf(), group: 'quiet', count: 1 }, 0, noRule);
    for (let last = 1; last <= 50; last += 1)
      record.add({ flow: flowOf(to(`10.1.0.${String(last)}`)), group: 'flood', count: 1 }, last, noRule);
    const shown = record.list(QUESTION, 50).map(({ destination }) => destination.address);
    expect(shown).toEqual(['10.0.0.2', ...Array.from({ length: 9 }, (_, index) => `10.1.0.${String(42 + index)}`)]);
    expect(record.forgotten).toBe(41);
  });

  it('lists only what was seen since, of the pod, and not what is too old', () => {
    const record = new FlowRecord({ maxFlows: 10, maxPorts: 4, keepMs: 100_000 });
    record.add({ flow: flowOf(), group: 'a', count: 1 }, 0, noRule);
    record.add({ flow: flowOf(to('10.0.0.3')), group: 'a', count: 1 }, 90_000, noRule);
    const addresses = (question: object) =>
      record.list({ ...QUESTION, ...question }, 95_000).map(({ destination }) => destination.address);
    expect(addresses({})).toEqual(['10.0.0.2', '10.0.0.3']);
    expect(addresses({ sinceSeconds: 10 })).toEqual(['10.0.0.3']);
    expect(addresses({ pod: 'shop/db' })).toEqual(['10.0.0.2']);
    expect(record.list(QUESTION, 150_000).map(({ destination }) => destination.address)).toEqual(['10.0.0.3']);
  });

  it('describes a flow by the rule that decided last', () => {
    const record = new FlowRecord();
    const ruleOf = (reason: string) => () => ({ direction: 'ingress', reason }) as const;
    const [before, after] = (['before', 'after'] as const).map((name): RuleOrigin => ({
      kind: 'tier',
      name,
      direction: 'ingress',
    }));
    const see = (origin: RuleOrigin | undefined, reason: string) => {
      record.add({ flow: flowOf(), group: 'a', count: 1, ...(origin && { origin }) }, 0, ruleOf(reason));
      return record.list(QUESTION, 0)[0]?.rule?.reason;
    };
    expect([see(before, 'one'), see(before, 'two'), see(after, 'three')]).toEqual(['one', 'one', 'three']);
  });

  it('takes as long for a flow when it is full as when it is not', () => {
    const timeOf = (maxFlows: number): number => {
      const record = new FlowRecord({ maxFlows, maxPorts: 16, keepMs: 1_000_000 });
      // Time of the processor: others use it too.
      const before = process.threadCpuUsage();
      for (let ordinal = 0; ordinal < 20_000; ordinal += 1) {
        const flow = flowOf(to(`10.${String(ordinal >> 8)}.${String(ordinal & 255)}`));
        record.add({ flow, group: String(ordinal % 500), count: 1 }, 0, noRule);
      }
      const { user, system } = process.threadCpuUsage(before);
      return user + system;
    };
    const best = (maxFlows: number): number => Math.min(...[1, 2, 3].map(() => timeOf(maxFlows)));
    expect(best(8192) / best(100_000)).toBeLessThan(6);
  });
});
