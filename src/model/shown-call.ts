import * as v from 'valibot';
import { tryParseJson } from '../base/try-parse-json.ts';

/** Which calls of a node are asked for. */
const QUESTION = v.object({
  last: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1)), 10),
  /** Namespace and name, with a slash between. */
  pod: v.optional(v.string()),
  /** The slowest come last if they are what is wanted, otherwise the newest. */
  order: v.optional(v.picklist(['newest', 'slowest']), 'newest'),
});
export type CallsQuestion = v.InferOutput<typeof QUESTION>;

const PHASE = v.object({ name: v.string(), startMs: v.number(), durationMs: v.number(), isFailed: v.boolean() });

/** A call as the agent shows it; fields of newer agents pass unread. */
const SHOWN_CALL = v.object({
  program: v.string(),
  command: v.optional(v.string()),
  containerId: v.optional(v.string()),
  ifName: v.optional(v.string()),
  network: v.optional(v.string()),
  pod: v.optional(v.string()),
  node: v.optional(v.string()),
  startedAt: v.string(),
  totalMs: v.number(),
  phases: v.array(PHASE),
  /** Whether the addresses came from the agent's stock, or the call waited for the datastore. */
  way: v.optional(v.picklist(['stock', 'waited'])),
  failure: v.optional(v.object({ code: v.string(), message: v.string() })),
  traceId: v.optional(v.string()),
});
export type ShownCall = v.InferOutput<typeof SHOWN_CALL>;

const ANSWER = v.object({
  /** Of the agent. */
  version: v.optional(v.string()),
  calls: v.array(SHOWN_CALL),
});
export type ShownCalls = v.InferOutput<typeof ANSWER>;

/** Undefined when the text is no such question. */
export function readCallsQuestion(text: string): CallsQuestion | undefined {
  return readJson(QUESTION, text);
}

/** Undefined when the text is no such answer. */
export function readShownCalls(text: string): ShownCalls | undefined {
  return readJson(ANSWER, text);
}

/** Undefined when the text is not JSON or of another form. */
export function readJson<T>(schema: v.GenericSchema<unknown, T>, text: string): T | undefined {
  const result = v.safeParse(schema, tryParseJson(text));
  return result.success ? result.output : undefined;
}
