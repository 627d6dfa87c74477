import { describe, expect, it } from 'vitest';
import { parseTraceParent } from './trace-parent.ts';

const [traceId, spanId] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];

describe('TRACEPARENT', () => {
  it('is decoded with the sampling decision of the caller and TRACESTATE', () => {
    expect(parseTraceParent(`00-${traceId}-${spanId}-01`, 'a=1')).toEqual({
      traceId,
      spanId,
      isSampled: true,
      state: 'a=1',
    });
    expect(parseTraceParent(`00-${traceId}-${spanId}-00`, undefined)).toMatchObject({ isSampled: false });
  });

  it('may have more fields in a newer version', () => {
    expect(parseTraceParent(`01-${traceId}-${spanId}-01-more`, undefined)).toMatchObject({ traceId });
  });

  it.each([
    ['nothing', ''],
    ['a forbidden version', `ff-${traceId}-${spanId}-01`],
    ['more fields than version 00 has', `00-${traceId}-${spanId}-01-more`],
    ['capitals', `00-${traceId.toUpperCase()}-${spanId}-01`],
    ['a trace id of zeros', `00-${'0'.repeat(32)}-${spanId}-01`],
    ['a span id of zeros', `00-${traceId}-${'0'.repeat(16)}-01`],
    ['a short id', `00-${traceId.slice(1)}-${spanId}-01`],
    ['white space', ` 00-${traceId}-${spanId}-01`],
    ['a line break at the end', `00-${traceId}-${spanId}-01\n`],
  ])('is rejected with %s', (_, text) => {
    expect(parseTraceParent(text, undefined)).toBeUndefined();
  });
});
