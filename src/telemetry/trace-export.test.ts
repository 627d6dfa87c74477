import { afterEach, describe, expect, it } from 'vitest';
import { memoryNode } from '../../test/support/memory-node.ts';
import { durationMs, type OtlpReceiver, startOtlpReceiver, textsOf } from '../../test/support/otlp-receiver.ts';
import { systemClock } from '../base/clock.ts';
import type { CallRecord } from '../cni/call-record.ts';
import { isTraced } from './is-traced.ts';
import { openTraceExport } from './trace-export.ts';

const ENDPOINT = 'OTEL_EXPORTER_OTLP_ENDPOINT';
const [traceId, spanId] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];
const PARENT = { TRACEPARENT: `00-${traceId}-${spanId}-01`, TRACESTATE: 'vendor=1' };

afterEach(() => {
  delete process.env[ENDPOINT];
});

describe('the export of traces', () => {
  it('sends a call as a child of the span of the caller, and its phases as children of the call', async () => {
    await using receiver = await startOtlpReceiver();
    const record = await recordOf('ADD');
    expect(await exportTo(receiver, record)).toEqual([]);

    const call = receiver.spans.find(({ name }) => name === 'CNI ADD')!;
    expect(call).toMatchObject({ traceId, parentSpanId: spanId, traceState: 'vendor=1', kind: 2 });
    expect(call.status.code).toBe(0);
    expect(textsOf(call.attributes)).toMatchObject({
      'netplug.program': 'netplug',
      'netplug.outcome': 'done',
      'netplug.path': 'datastore',
      'cni.network': 'net',
      'cni.ifname': 'eth0',
      'container.id': 'c1',
      'k8s.namespace.name': 'shop',
      'k8s.pod.name': 'web',
      'k8s.node.name': 'node-a',
    });
    const phases = receiver.spans.filter(({ parentSpanId }) => parentSpanId === call.spanId);
    expect(phases.map(({ name }) => name)).toEqual(record.phases.map(({ name }) => name));
    const sumMs = phases.reduce((sum, phase) => sum + durationMs(phase), 0);
    expect(sumMs).toBeGreaterThan(0.95 * durationMs(call));
    expect(durationMs(call)).toBeCloseTo(record.totalMs, 2);
    expect(Math.abs(Number(BigInt(call.startTimeUnixNano) / 1_000_000n) - record.startedAt)).toBeLessThanOrEqual(1);
    expect(receiver.resource()).toMatchObject({ 'service.name': 'netplug' });
  });

  it('marks the call and the phase that failed, with the code', async () => {
    await using receiver = await startOtlpReceiver();
    await exportTo(receiver, await recordOf('CHECK', { conf: { prevResult: { ips: [] } } }));
    const call = receiver.spans.find(({ name }) => name === 'CNI CHECK')!;
    expect(call.status.code).toBe(2);
    expect(textsOf(call.attributes)).toMatchObject({ 'netplug.outcome': 'failed', 'error.type': 'check/mismatch' });
  });

  it('starts a new trace when the caller does not trace', async () => {
    await using receiver = await startOtlpReceiver();
    await exportTo(receiver, await recordOf('STATUS', { env: { TRACEPARENT: '', TRACESTATE: '' } }));
    const call = receiver.spans.find(({ name }) => name === 'CNI STATUS')!;
    expect(call.parentSpanId ?? '').toBe('');
    expect(new Set(receiver.spans.map(({ traceId: id }) => id))).toEqual(new Set([call.traceId]));
  });

  it.each(['hangs', 'is unreachable'] as const)('reports a lost trace when the receiver %s', async (manner) => {
    await using receiver = await startOtlpReceiver('hangs');
    if (manner === 'is unreachable') await receiver[Symbol.asyncDispose]();
    expect(await exportTo(receiver, await recordOf('ADD'), 300)).not.toEqual([]);
  });
});

describe('the queue of traces', () => {
  it('drops calls when it is full', async () => {
    await using receiver = await startOtlpReceiver();
    process.env[ENDPOINT] = receiver.url;
    const record = await recordOf('ADD');
    const traces = openTraceExport({ timeoutMs: 5000, onProblem: () => undefined });
    for (let count = 0; count < 1000; count += 1) traces.add(record);
    await traces.close();
    // The capacity of the queue, and one request in flight.
    expect(receiver.spans).toHaveLength(2048 + 512);
  });
});

describe('a call is traced', () => {
  const sampled = { traceId, spanId, isSampled: true, state: undefined };
  it.each([
    ['not by default', {}, undefined, false],
    ['when its caller traces it', {}, sampled, true],
    ['not when its caller does not sample it', {}, { ...sampled, isSampled: false }, false],
    ['when tracing is switched on', { NETPLUG_TRACE: '1' }, undefined, true],
    ['not when tracing is switched off', { NETPLUG_TRACE: '0' }, undefined, false],
  ])('%s', (_, env, parent, expected) => {
    expect(isTraced({ parent }, env)).toBe(expected);
  });
});

async function recordOf(
  verb: string,
  { conf = {}, env = {} }: { conf?: object; env?: Record<string, string> } = {},
): Promise<CallRecord> {
  const node = await memoryNode({ input: 2, setup: 0, gate: 0, store: 5 }, systemClock);
  return (await node.call(verb, { conf, env: { ...PARENT, ...env } })).record;
}

/** Returns the problems of the export. */
async function exportTo({ url }: OtlpReceiver, record: CallRecord, timeoutMs = 5000): Promise<string[]> {
  process.env[ENDPOINT] = url;
  const problems: string[] = [];
  const traces = openTraceExport({ timeoutMs, onProblem: (reason) => problems.push(reason) });
  traces.add(record);
  await traces.close();
  return problems;
}
