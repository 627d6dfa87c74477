/** The trace context of the caller (W3C Trace Context). */
export interface TraceParent {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  readonly isSampled: boolean;
  /** The value of TRACESTATE, passed on unchanged. */
  readonly state: string | undefined;
}

const FORMAT =
  /^(?<version>[\da-f]{2})-(?<traceId>[\da-f]{32})-(?<spanId>[\da-f]{16})-(?<flags>[\da-f]{2})(?<rest>-.*)?$/;

/** Decodes TRACEPARENT as the standard requires; undefined when it is malformed. A newer version may have more fields. */
export function parseTraceParent(text: string, state: string | undefined): TraceParent | undefined {
  const { version, traceId = '', spanId = '', flags = '', rest } = FORMAT.exec(text)?.groups ?? {};
  if (version === undefined || version === 'ff' || (version === '00' && rest !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1, state };
}
