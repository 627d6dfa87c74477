import { descriptionOf, type Schema, shapeOf, unwrapped } from '../../../../model/schema-shape.ts';

/** Facts about one field. */
export interface FieldFacts {
  readonly name: string;
  readonly type: string;
  readonly isRequired: boolean;
  readonly byDefault: unknown;
  readonly about: string | undefined;
  /** Each completes "allowed is …". */
  readonly allowed: readonly string[];
  /** Field that identifies the items of a list. */
  readonly mergeKey: string | undefined;
  /** The fields of an object, or of the objects in a list. */
  readonly fields: readonly FieldFacts[];
}

/** Everything the declaration says of the field. */
export function fieldFacts(name: string, schema: Schema): FieldFacts {
  const shape = shapeOf(schema);
  return {
    name,
    type: typeOf(schema),
    isRequired: !['optional', 'exact_optional', 'nullish'].includes(schema.type),
    byDefault: 'default' in schema ? schema.default : undefined,
    about: descriptionOf(schema),
    allowed: allowedIn(schema),
    mergeKey: shape.kind === 'array' ? shape.mergeKey : undefined,
    fields: fieldsIn(schema),
  };
}

function fieldsIn(schema: Schema): readonly FieldFacts[] {
  const shape = shapeOf(schema);
  if (shape.kind === 'array') return fieldsIn(shape.item);
  if (shape.kind === 'value') return [];
  return Object.entries(shape.entries).map(([name, entry]) => fieldFacts(name, entry));
}

function typeOf(schema: Schema): string {
  const shape = shapeOf(schema);
  if (shape.kind === 'array') return `array of ${typeOf(shape.item)}`;
  if (shape.kind === 'object') return 'object';
  const { type } = unwrapped(schema);
  if (type === 'picklist' || type === 'literal') return 'string';
  return type === 'record' ? 'object' : type;
}

function allowedIn(schema: Schema): readonly string[] {
  const shape = shapeOf(schema);
  const ofItems = shape.kind === 'array' && shapeOf(shape.item).kind === 'value' ? allowedIn(shape.item) : [];
  return [...new Set([...messagesIn(schema), ...ofItems.map((rule) => `in it, ${rule}`)])];
}

/** The texts of the checks that a value has to pass, those of the parts of an object or list apart. */
function messagesIn(part: object): readonly string[] {
  const own = 'message' in part && typeof part.message === 'string' ? [part.message] : [];
  const wrapped = 'wrapped' in part && isObject(part.wrapped) ? messagesIn(part.wrapped) : [];
  // The first of a pipe is the schema itself.
  const rest =
    'pipe' in part && Array.isArray(part.pipe) ? part.pipe.slice(1).filter(isObject).flatMap(messagesIn) : [];
  return [...own, ...wrapped, ...rest];
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
