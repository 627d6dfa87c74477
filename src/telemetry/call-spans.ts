import {
  type Attributes,
  type Context,
  createTraceState,
  type HrTime,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Tracer,
} from '@opentelemetry/api';
import type { TraceParent } from '../base/trace-parent.ts';
import { type CallRecord, pathOf } from '../cni/call-record.ts';

/** Adds a span for a finished call, and a child span for each phase. */
export function addSpans(tracer: Tracer, record: CallRecord): void {
  const { command, startedAt, totalMs, phases, failure, parent } = record;
  const at = (ms: number): HrTime => hrTimeOf(startedAt + ms);
  const context = parent === undefined ? ROOT_CONTEXT : contextOf(parent);
  const options = { kind: SpanKind.SERVER, startTime: at(0), attributes: attributesOf(record) };
  const call = tracer.startSpan(`CNI ${command ?? 'call'}`, options, context);
  if (failure !== undefined) call.setStatus({ code: SpanStatusCode.ERROR, message: failure.message });
  const within = trace.setSpan(ROOT_CONTEXT, call);
  for (const { name, startMs, durationMs, isFailed } of phases) {
    const span = tracer.startSpan(name, { startTime: at(startMs) }, within);
    if (isFailed) span.setStatus({ code: SpanStatusCode.ERROR });
    span.end(at(startMs + durationMs));
  }
  call.end(at(totalMs));
}

/** Returns the attributes of a call, with names of OpenTelemetry's conventions where they exist. */
function attributesOf(record: CallRecord): Attributes {
  const { program, identity, failure } = record;
  const [namespace, pod] = identity.pod?.split('/') ?? [];
  return {
    'netplug.program': program,
    'netplug.outcome': failure === undefined ? 'done' : 'failed',
    'netplug.path': pathOf(record),
    'cni.network': identity.network,
    'cni.ifname': identity.ifName,
    'container.id': identity.containerId,
    'k8s.namespace.name': namespace,
    'k8s.pod.name': pod,
    'k8s.node.name': identity.node,
    'error.type': failure?.code,
  };
}

function contextOf({ traceId, spanId, isSampled, state }: TraceParent): Context {
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    isRemote: true,
    traceFlags: isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
    ...(state === undefined ? {} : { traceState: createTraceState(state) }),
  });
}

function hrTimeOf(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}
