import { describe, expect, it } from 'vitest';
import { callCtl, type Ran } from '../../../../test/support/ctl.ts';
import type { FlowsQuestion, ShownFlows } from '../../../model/shown-flows.ts';

const RULE = { policy: 'NetworkPolicy shop/db', place: 'ingress[1]', direction: 'ingress' } as const;
const REASON = 'NetworkPolicy shop/db, ingress[1]: Deny all traffic';
const FLOW = {
  verdict: 'denied',
  source: { address: '10.0.0.1', pod: 'shop/web' },
  destination: { address: '10.0.0.2', pod: 'shop/db' },
  protocol: 17,
  port: 53,
  rule: { ...RULE, reason: REASON },
  firstSeen: '2026-01-01T10:00:00Z',
  lastSeen: '2026-01-01T10:00:05Z',
  count: 3,
} as const;
const SHOWN: ShownFlows = {
  node: 'node-a',
  recordedSince: '2026-01-01T09:00:00Z',
  flows: [FLOW, { ...FLOW, source: { address: '192.0.2.9', host: 'node-a' }, protocol: 47, port: undefined }],
  rules: [{ verdict: 'denied', rule: { ...RULE, reason: REASON }, packets: 4711 }],
  lostReports: 7,
  forgotten: 0,
};
const NONE = { ...SHOWN, flows: [], rules: [], lostReports: 0 };

async function run(shown: ShownFlows, ...argv: string[]): Promise<Ran & { readonly question: FlowsQuestion }> {
  let question: FlowsQuestion = { verdicts: [] };
  const askAgent = async (_: string, { text }: { readonly text: string }): Promise<string> => {
    question = JSON.parse(text) as FlowsQuestion;
    return Promise.resolve(JSON.stringify(shown));
  };
  const ran = await callCtl(['policy', ...argv], { askAgent });
  return { ...ran, question };
}

describe('netplugctl policy denied', () => {
  it('asks the own node alone, and says how to ask others', async () => {
    expect((await run(SHOWN, 'denied', '--node', 'node-a')).status).toBe(0);
    for (const more of [['--node', 'node-b'], ['--all-nodes']]) {
      const { status, err, out } = await run(SHOWN, 'denied', '--since', '5m', ...more);
      expect({ status, out }).toEqual({ status: 69, out: '' });
      expect(err).toContain('agents answer only root of their own node');
      expect(err).toContain('Run "netplugctl policy denied --since 300s" as root on');
    }
    const { err } = await callCtl(['policy', 'flows', '--node', 'node-b'], {});
    expect(err).toContain('Run "netplugctl policy flows --since 600s" as root on node node-b');
  });

  it('shows each flow with its rule and the command that explains it, then the counters', async () => {
    const { out, err, status } = await run(SHOWN, 'denied');
    expect(out).toBe(`2026-01-01T10:00:05Z  3x  shop/web (10.0.0.1) -> shop/db (10.0.0.2), UDP port 53: denied
  ingress: ${REASON}
  netplugctl policy why shop/web shop/db --protocol UDP --port 53
2026-01-01T10:00:05Z  3x  host/node-a (192.0.2.9) -> shop/db (10.0.0.2), protocol 47: denied
  ingress: ${REASON}

packets counted by rules since 2026-01-01T09:00:00Z
  4711  ingress, denied  ${REASON}
`);
    expect([err, status]).toEqual(['7 reports of the kernel did not reach the agent\n', 0]);
  });

  it.each([
    [[], { verdicts: ['denied'], sinceSeconds: 600 }],
    [['--since', '30s', '--logged'], { verdicts: ['logged'], sinceSeconds: 30 }],
    [['--since', '1h', '--pod', 'shop/web'], { verdicts: ['denied'], sinceSeconds: 3600, pod: 'shop/web' }],
    [['--staged'], { verdicts: ['staged deny', 'staged allow', 'staged log'], sinceSeconds: 600 }],
  ])('asks the agent for what %j means', async (argv, question) => {
    expect((await run(NONE, 'denied', ...argv)).question).toEqual(question);
  });

  it.each(['2h', '0s', '10', '5d', '-1m', 'soon'])('refuses %s as time', async (since) => {
    const { status, err } = await run(NONE, 'denied', '--since', since);
    expect([status, err]).toEqual([64, expect.stringContaining('at most 1h')]);
  });

  it('replaces control characters of names that netplug does not control', async () => {
    const evil = { ...SHOWN.rules[0]?.rule, direction: 'ingress' as const, reason: '\u001B[2J\u0007' };
    const flows = SHOWN.flows.map((flow) => ({ ...flow, rule: evil }));
    const { out } = await run({ ...SHOWN, flows, rules: [{ verdict: 'denied', rule: evil, packets: 1 }] }, 'denied');
    expect(out).not.toMatch(/(?!\n)\p{Cc}/u);
  });

  it('says when nothing matches', async () => {
    const { out, err, status } = await run(NONE, 'denied');
    expect([out, err, status]).toEqual(['', 'No matching flow of pods of node node-a since 2026-01-01T09:00:00Z\n', 0]);
  });
});

describe('netplugctl policy flows', () => {
  it('shows a table, and with -o json what the agent has answered', async () => {
    const { rule: _, ...flow } = FLOW;
    const shown = { ...NONE, flows: [{ ...flow, verdict: 'allowed' as const, isReplied: true }] };
    const table = await run(shown, 'flows');
    expect(table.out)
      .toBe(`LAST SEEN             CONNECTIONS  FROM                 TO                  TRAFFIC      ANSWERED
2026-01-01T10:00:05Z  3            shop/web (10.0.0.1)  shop/db (10.0.0.2)  UDP port 53  yes
`);
    expect(table.question.verdicts).toEqual(['allowed']);
    expect(JSON.parse((await run(shown, 'flows', '-o', 'json')).out)).toEqual(shown);
  });
});
