import * as v from 'valibot';

const text = v.nullish(v.string(), '');
const condition = v.looseObject({
  type: v.string(),
  status: v.string(),
  reason: text,
  message: text,
  lastTransitionTime: text,
});
const withConditions = v.looseObject({ status: v.looseObject({ conditions: v.nullish(v.array(condition), []) }) });

export type ObjectCondition = Readonly<v.InferOutput<typeof condition>>;

/** Returns the condition of an object's status; undefined while its controller has not written it. */
export function findCondition(object: unknown, type: string): ObjectCondition | undefined {
  const read = v.safeParse(withConditions, object);
  return read.success ? read.output.status.conditions?.find((each) => each.type === type) : undefined;
}

/** Reports whether the condition is True: `Ready` of a pod or a node, `Established` of a definition. */
export function isConditionTrue(object: unknown, type: string): boolean {
  return findCondition(object, type)?.status === 'True';
}
