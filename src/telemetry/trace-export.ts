import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { AlwaysOnSampler, BatchSpanProcessor, type SpanExporter, TracerProvider } from '@opentelemetry/sdk-trace';
import { VERSION } from '../base/version.ts';
import type { CallRecord } from '../cni/call-record.ts';
import { addSpans } from './call-spans.ts';

/** Sends calls as traces to the receiver that OTEL_EXPORTER_OTLP_ENDPOINT and the like name. */
export interface TraceExport {
  /** Adds the call to a queue that is sent periodically; drops the call when the queue is full. */
  add(record: CallRecord): void;
  /** Sends queued calls; resolves when they are sent or lost. */
  close(): Promise<void>;
}

export interface TraceExportOptions {
  /** The timeout of one request including retries; OTEL_EXPORTER_OTLP_TIMEOUT or 10 s unless given. */
  readonly timeoutMs?: number;
  /** Called when traces are lost. */
  readonly onProblem: (reason: string) => void;
}

/** About 200 calls. */
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
      // onProblem has received the reason of the rejection.
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
