import { describe, expect, it } from 'vitest';
import { memoryNode } from '../../../test/support/memory-node.ts';
import type { CallRecord } from '../../cni/call-record.ts';
import { readShownCalls, type ShownCall } from '../../model/shown-call.ts';
import { type CallHistory, callHistory } from './call-history.ts';

describe('the history of calls', () => {
  it('shows the newest call last, with all facts', async () => {
    const history = callHistory();
    const node = await memoryNode({ input: 1, setup: 0, gate: 0, store: 2 });
    history.add((await node.call('ADD')).record);
    history.add((await node.call('CHECK', { conf: { prevResult: { ips: [] } } })).record);
    history.add((await node.call('DEL')).record);
    const calls = ask(history, { last: 2 });
    expect(calls.map(({ command }) => command)).toEqual(['CHECK', 'DEL']);
    expect(calls[0]).toMatchObject({
      program: 'netplug',
      containerId: 'c1',
      ifName: 'eth0',
      network: 'net',
      pod: 'shop/web',
      node: 'node-a',
      path: 'datastore',
      failure: { code: 'check/mismatch' },
    });
    expect(calls[1]?.phases.map(({ name }) => name)).toContain('store');
  });

  it('shows only the calls of one pod, or the slowest, on request', () => {
    const history = callHistory();
    for (const [pod, totalMs] of [['shop/a', 9] as const, ['shop/b', 5] as const, ['shop/a', 1] as const])
      history.add(recordOf({ identity: { pod }, totalMs }));
    expect(ask(history, { pod: 'shop/a' }).map(({ totalMs }) => totalMs)).toEqual([9, 1]);
    expect(ask(history, { order: 'slowest', last: 2 }).map(({ totalMs }) => totalMs)).toEqual([5, 9]);
  });

  it('marks an ADD that used a pre-allocated address', () => {
    const history = callHistory();
    history.add(recordOf({ phases: [{ name: 'journal', startMs: 0, durationMs: 1, isFailed: false }] }));
    expect(ask(history, {})).toMatchObject([{ path: 'warm-pool' }]);
  });

  it('limits its size, whatever callers send', () => {
    const history = callHistory();
    const phases = Array.from({ length: 1000 }, (_, index) => ({
      name: 'delegate',
      startMs: index,
      durationMs: index % 100 === 0 ? 1 : 0.5,
      isFailed: false,
    }));
    const long = 'x'.repeat(100_000);
    const failure = { code: 'cni/env-invalid', message: long };
    for (let count = 0; count < 1000; count += 1)
      history.add(recordOf({ totalMs: count, phases, failure, identity: { containerId: long, pod: long } }));
    const calls = ask(history, { last: 1000 });
    expect(calls).toHaveLength(256);
    expect(calls.at(-1)?.totalMs).toBe(999);
    expect(calls[0]?.phases.filter(({ durationMs }) => durationMs === 1)).toHaveLength(10);
    expect(history.answer('{"last":1000}').length).toBeLessThan(256 * 10_000);
  });

  it.each(['', 'null', '{"last":0}', '{"order":"oldest"}'])('refuses the question %j', (question) => {
    expect(() => callHistory().answer(question)).toThrow(/Cannot decode the request for calls/);
  });
});

function recordOf(more: Partial<CallRecord>): CallRecord {
  return {
    program: 'netplug',
    command: 'ADD',
    identity: {},
    startedAt: 0,
    totalMs: 1,
    phases: [],
    failure: undefined,
    parent: undefined,
    ...more,
  };
}

function ask(history: CallHistory, question: object): readonly ShownCall[] {
  return readShownCalls(history.answer(JSON.stringify(question)))!.calls;
}
