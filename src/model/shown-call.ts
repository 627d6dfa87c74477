import * as v from 'valibot';
import { tryParseJson } from '../base/try-parse-json.ts';

/** A query for calls of a node. */
const QUESTION = v.object({
  last: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1)), 10),
  /** Namespace and name, with a slash between. */
  pod: v.optional(v.string()),
  /** The newest or the slowest calls; the newest, or the slowest, comes last. */
  order: v.optional(v.picklist(['newest', 'slowest']), 'newest'),
});
export type CallsQuestion = v.InferOutput<typeof QUESTION>;

const PHASE = v.object({ name: v.string(), startMs: v.number(), durationMs: v.number(), isFailed: v.boolean() });

/** A call as the agent reports it; fields of newer agents are ignored. */
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
  /** Whether the addresses came from the agent's warm pools, or the call waited for the datastore. */
  path: v.optional(v.picklist(['warm-pool', 'datastore'])),
  failure: v.optional(v.object({ code: v.string(), message: v.string() })),
  traceId: v.optional(v.string()),
});
export type ShownCall = v.InferOutput<typeof SHOWN_CALL>;

const ANSWER = v.object({
  /** The version of the agent. */
  version: v.optional(v.string()),
  calls: v.array(SHOWN_CALL),
});
export type ShownCalls = v.InferOutput<typeof ANSWER>;

/** Decodes a query; undefined when the text is not one. */
export function readCallsQuestion(text: string): CallsQuestion | undefined {
  return readJson(QUESTION, text);
}

/** Decodes an answer; undefined when the text is not one. */
export function readShownCalls(text: string): ShownCalls | undefined {
  return readJson(ANSWER, text);
}

/** Decodes JSON by the schema; undefined when the text is not JSON or does not match. */
export function readJson<T>(schema: v.GenericSchema<unknown, T>, text: string): T | undefined {
  const result = v.safeParse(schema, tryParseJson(text));
  return result.success ? result.output : undefined;
}
