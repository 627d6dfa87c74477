import * as v from 'valibot';
import { type FromSidecar, MOST_LISTED, MOST_TEXT } from '../../../../policy/feed/messages.ts';
import { payloadJson, protocolError, type StreamFrame } from '../../../../stream/stream-frames.ts';

const port = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(65_535));
const shortText = v.pipe(v.string(), v.maxLength(MOST_TEXT));
const count = v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(2 ** 31));

/** Any process of a pod can say it is the sidecar, so what it says is checked, and small. */
const message = v.variant('type', [
  v.object({
    type: v.literal('hello'),
    release: v.pipe(v.string(), v.regex(/^[0-9A-Za-z.+-]{1,64}$/)),
    formats: v.pipe(v.array(v.number()), v.maxLength(32)),
  }),
  v.object({ type: v.literal('applied'), generation: v.number() }),
  v.object({
    type: v.literal('guard'),
    proof: v.object({
      ports: v.pipe(v.array(port), v.maxLength(MOST_LISTED)),
      open: v.pipe(v.array(v.object({ port, why: shortText })), v.maxLength(MOST_LISTED)),
      families: v.pipe(v.array(v.picklist([4, 6])), v.maxLength(2)),
      proxy: v.pipe(v.string(), v.maxLength(64)),
      problems: v.pipe(v.array(shortText), v.maxLength(MOST_LISTED)),
    }),
  }),
  v.object({
    type: v.literal('requests'),
    requests: v.pipe(
      v.array(
        v.object({
          policy: v.optional(shortText),
          index: v.optional(v.number()),
          verdict: v.picklist(['allow', 'deny']),
          method: shortText,
          path: shortText,
          source: v.pipe(v.string(), v.maxLength(64)),
          port,
          account: v.optional(shortText),
          count,
          note: v.optional(shortText),
        }),
      ),
      v.maxLength(MOST_LISTED),
    ),
  }),
]);

/** @throws stream/protocol */
export function readFromSidecar(frame: StreamFrame): FromSidecar {
  const read = v.safeParse(message, payloadJson(frame));
  // What it says is not repeated: it may be anything.
  if (!read.success) throw protocolError('it says what is no message of a sidecar');
  return read.output;
}
