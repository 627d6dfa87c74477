import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { AlwaysOnSampler, BatchSpanProcessor, type SpanExporter, TracerProvider } from '@opentelemetry/sdk-trace';
import { VERSION } from '../base/version.ts';
import type { CallRecord } from '../cni/call-record.ts';
import { addSpans } from './call-spans.ts';

/** Sends calls as traces to the receiver that OTEL_EXPORTER_OTLP_ENDPOINT and the like name. */
export interface TraceExport {
  /** Puts the call into a queue that drops what it has no room for; what was put in goes out soon. */
  add(record: CallRecord): void;
  /** Sends what is queued; resolves when it is through, or lost. */
  close(): Promise<void>;
}

export interface TraceExportOptions {
  /** For one request, with its repetitions. Unset, it is OTEL_EXPORTER_OTLP_TIMEOUT or 10 s. */
  readonly timeoutMs?: number;
  /** Told when traces are lost. */
  readonly onProblem: (reason: string) => void;
}

/** Some 200 calls. */
const MAX_QUEUED_SPANS = 2048;
const SEND_EVERY_MS = 1000;

export function openTraceExport({ timeoutMs, onProblem }: TraceExportOptions): TraceExport {
  const sender = new OTLPTraceExporter(timeoutMs === undefined ? {} : { timeoutMillis: timeoutMs });
  const queue = new BatchSpanProcessor({
    exporter: reporting(sender, onProblem),
    maxQueueSize: MAX_QUEUED_SPANS,
    scheduledDelayMillis: SEND_EVERY_MS,
  });
  const provider = new TracerProvider({
    sampler: new AlwaysOnSampler(),
    resource: defaultResource()
      .merge(resourceFromAttributes({ 'service.name': 'netplug', 'service.version': VERSION }))
      .merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [queue],
  });
  const tracer = provider.getTracer('netplug', VERSION);
  return {
    add: (record) => {
      addSpans(tracer, record);
    },
    close: async () => {
      // It rejects with what onProblem was told.
      await provider.shutdown().catch(() => undefined);
    },
  };
}

function reporting(exporter: SpanExporter, onProblem: (reason: string) => void): SpanExporter {
  return {
    export: (spans, done) => {
      exporter.export(spans, (result) => {
        if (result.error !== undefined) onProblem(result.error.message);
        done(result);
      });
    },
    shutdown: async () => exporter.shutdown(),
  };
}
