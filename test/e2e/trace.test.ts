import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { AS_OTHER_NODE } from '../support/node.ts';
import { durationMs, startOtlpReceiver, textsOf } from '../support/otlp-receiver.ts';
import { BUILT } from '../support/built.ts';

const [traceId, spanId] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];
const TRACEPARENT = `00-${traceId}-${spanId}-01`;
const CONF = JSON.stringify({
  cniVersion: '1.1.0',
  name: 'net',
  type: 'netplug',
  kv_endpoints: 'http://127.0.0.1:1',
  log_level: 'DEBUG',
  ipam: { type: 'netplug-ipam' },
});

interface Ran {
  readonly status: unknown;
  readonly stdout: string;
  readonly stderr: string;
  readonly ms: number;
}

const NETPLUG = join(BUILT, 'netplug');
/** A call that waits for a receiver without a limit of its own takes a minute. */
const LONGEST_MS = 20_000;

/** Without a datastore: the time is limited, so that STATUS fails soon. */
async function call(verb: string, env: Record<string, string>): Promise<Ran> {
  const startMs = performance.now();
  return new Promise((resolve) => {
    const all = {
      CNI_COMMAND: verb,
      CNI_PATH: '/opt/cni/bin',
      ...AS_OTHER_NODE,
      NETPLUG_CALL_TIMEOUT: '2',
      ...env,
    };
    const child = execFile(NETPLUG, { env: all }, (cause, stdout, stderr) => {
      resolve({ status: cause?.code ?? 0, stdout, stderr, ms: performance.now() - startMs });
    });
    child.stdin?.end(CONF);
  });
}

describe('the trace of a call by the standalone program', () => {
  it('reaches the receiver, below the span of the caller, with phases for nearly all of its time', async () => {
    await using receiver = await startOtlpReceiver();
    const { status, stdout } = await call('STATUS', { TRACEPARENT, OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url });
    expect(status).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ code: 50 });

    const root = receiver.spans.find(({ name }) => name === 'CNI STATUS')!;
    expect(root).toMatchObject({ traceId, parentSpanId: spanId, status: { code: 2 } });
    expect(textsOf(root.attributes)).toMatchObject({ 'error.type': 'status/not-ready', 'cni.network': 'net' });
    const phases = receiver.spans.filter(({ parentSpanId }) => parentSpanId === root.spanId);
    expect(phases.map(({ name }) => name)).toEqual(expect.arrayContaining(['input', 'decode', 'setup', 'store']));
    const sumMs = phases.reduce((sum, phase) => sum + durationMs(phase), 0);
    expect(sumMs).toBeGreaterThan(0.95 * durationMs(root));
  });

  it('is not exported when the caller does not trace or its header is malformed', async () => {
    await using receiver = await startOtlpReceiver();
    await call('VERSION', { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url });
    const { stderr } = await call('STATUS', {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      TRACEPARENT: '00-4bf92f-00f067-01',
    });
    expect(stderr).toMatch(/DEBUG +malformed TRACEPARENT ignored/);
    expect(receiver.spans).toEqual([]);
  });

  it.each(['hangs', 'is gone'] as const)('harms no call when the receiver %s', async (manner) => {
    await using receiver = await startOtlpReceiver('hangs');
    if (manner === 'is gone') await receiver[Symbol.asyncDispose]();
    const { status, stdout, stderr, ms } = await call('VERSION', {
      NETPLUG_TRACE: '1',
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    });
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ supportedVersions: expect.arrayContaining(['1.1.0']) as string[] });
    expect(stderr).toMatch(/WARNING trace not exported/);
    expect(ms).toBeLessThan(LONGEST_MS);
  });
});
