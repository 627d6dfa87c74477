import { stripVTControlCharacters } from 'node:util';
import { describe, expect, it } from 'vitest';
import { callCtl, type Ran } from '../../../../test/support/ctl.ts';
import type { ShownCall } from '../../../model/shown-call.ts';
import { renderWaterfall } from './waterfall.ts';

const phase = (name: string, startMs: number, durationMs: number, isFailed = false): ShownCall['phases'][number] => ({
  name,
  startMs,
  durationMs,
  isFailed,
});

const about = { program: 'netplug', network: 'net', node: 'node-a', ifName: 'eth0' };
const CALLS: readonly ShownCall[] = [
  {
    ...about,
    command: 'ADD',
    containerId: 'c1',
    pod: 'shop/web',
    startedAt: '2026-01-02T00:00:00.125Z',
    totalMs: 20,
    phases: [
      phase('decode', 0, 0.2),
      phase('input', 0.2, 1.8),
      phase('decode', 2, 1),
      phase('setup', 3, 2),
      phase('store', 5, 10),
      phase('plan', 15, 0.1),
      phase('kernel', 15.1, 4.8),
      phase('answer', 19.9, 0.1),
    ],
    path: 'datastore',
  },
  {
    ...about,
    command: 'DEL',
    containerId: 'c2',
    startedAt: '2026-01-02T00:00:01.000Z',
    totalMs: 2040.04,
    phases: [phase('input', 0, 1), phase('kernel', 1, 30), phase('store', 1, 2038, true)],
    path: 'datastore',
    failure: { code: 'store/unavailable', message: 'Cannot reach the datastore' },
  },
  { program: 'netplug-ipam', startedAt: '2026-01-02T00:00:02.000Z', totalMs: 0, phases: [] },
];

describe('netplugctl trace', () => {
  it('draws calls as in the golden file', async () => {
    const text = renderWaterfall(CALLS, { columns: 72, mayColour: false });
    await expect(text).toMatchFileSnapshot('../../../../test/golden/waterfall.txt');
  });

  it.each([40, 80, 300])('keeps lines of phases within %d columns', (columns) => {
    const lines = renderWaterfall(CALLS, { columns, mayColour: false })
      .split('\n')
      .filter((line) => line.includes('│'));
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns);
  });

  it('uses colours only when the screen allows them', () => {
    const text = renderWaterfall(CALLS, { columns: 72, mayColour: true });
    expect(text).toContain('\u001B[31m');
    expect(stripVTControlCharacters(text)).toBe(renderWaterfall(CALLS, { columns: 72, mayColour: false }));
  });

  it('replaces control characters in names from callers', () => {
    const call: ShownCall = {
      ...about,
      containerId: '\u001B[2J\u0007',
      startedAt: '2026-01-02T00:00:00.000Z',
      totalMs: 1,
      phases: [],
      failure: { code: 'cni/env-invalid', message: 'Cannot\u001B[2J' },
    };
    expect(renderWaterfall([call], { columns: 72, mayColour: false })).not.toMatch(/(?!\n)\p{Cc}/u);
  });

  it('passes its options to the agent', async () => {
    const { status, asked, out } = await run(['trace', '--last', '3', '--pod', 'shop/web', '--slow', '-o', 'json']);
    expect(status).toBe(0);
    expect(asked).toEqual(['/nowhere/run/cni.sock', 'show-calls', { last: 3, pod: 'shop/web', order: 'slowest' }]);
    expect(JSON.parse(out)).toEqual({ calls: CALLS });
  });

  it('shows a waterfall unless -o json is given', async () => {
    const { out, asked } = await run(['trace', '--socket', '/tmp/a.sock']);
    expect(out).toContain('ADD  shop/web (c1/eth0)  20.0 ms  waited for the datastore');
    expect(asked).toEqual(['/tmp/a.sock', 'show-calls', { last: 10, order: 'newest' }]);
  });

  it('prints a note when no call matches', async () => {
    const { out, err, status } = await run(['trace'], async () => Promise.resolve('{"calls":[]}'));
    expect([status, out, err]).toEqual([0, '', 'The agent has served no matching call since it started\n']);
  });

  it('fails with a hint when no agent answers', async () => {
    const { status, err } = await run(['trace'], async () => Promise.reject(new Error('connect ENOENT')));
    expect(status).toBe(69);
    expect(err).toContain('Cannot reach the agent at "/nowhere/run/cni.sock": connect ENOENT');
    expect(err).toContain('code: agent/unreachable');
  });

  it('fails when it cannot decode the answer', async () => {
    const { status, err } = await run(['trace'], async () => Promise.resolve('{"calls":[{}]}'));
    expect(status).toBe(76);
    expect(err).toContain('code: agent/protocol');
  });

  it.each([
    ['--last', '0'],
    ['--pod', 'web'],
  ])('refuses %s %s', async (flag, value) => {
    expect((await run(['trace', flag, value])).status).toBe(64);
  });
});

async function run(
  argv: readonly string[],
  answer: () => Promise<string> = async () => Promise.resolve(JSON.stringify({ calls: CALLS })),
): Promise<Ran & { asked: readonly unknown[] }> {
  let asked: readonly unknown[] = [];
  const ran = await callCtl(argv, {
    askAgent: async (socket, { kind, text }) => {
      asked = [socket, kind, JSON.parse(text)];
      return answer();
    },
  });
  return { ...ran, asked };
}
