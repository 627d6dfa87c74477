import { ownValue } from '../../../base/own-value.ts';
import { NetplugError } from '../../../base/errors.ts';
import { didYouMean, nearMiss } from '../../../base/near-miss.ts';
import { anyResourceJsonSchema, resourceJsonSchema } from '../../../model/resource-schema.ts';
import { netconfJsonSchema } from '../../../config/schema.ts';
import type { Io, Status } from '../ports.ts';
import { jsonText } from '../render-document.ts';
import { visibleKind, writableKind } from '../resources/kind-names.ts';
import { conflistJsonSchema } from './conflist-schema.ts';

const MAKE: Readonly<Record<string, (kind: string | undefined) => unknown>> = {
  netconf: netconfJsonSchema,
  conflist: conflistJsonSchema,
  resource: (kind) =>
    kind === undefined ? anyResourceJsonSchema() : resourceJsonSchema(writableKind(visibleKind(kind))),
};
export const SCHEMAS = Object.keys(MAKE);

/** Prints the schema of a network configuration, a list, any resource, or one kind of resource. @throws cli/usage */
export async function printSchema(io: Pick<Io, 'stdout'>, of: string, kind: string | undefined): Promise<Status> {
  const make = ownValue(MAKE, of);
  if (make === undefined || (kind !== undefined && of !== 'resource')) throw unknownSchema(of, kind);
  io.stdout(jsonText(make(kind)));
  return Promise.resolve(0);
}

function unknownSchema(of: string, kind: string | undefined): NetplugError {
  const meant = nearMiss(of, SCHEMAS);
  const what = kind === undefined ? of : `${of} ${kind}`;
  return new NetplugError('cli/usage', `Cannot print a schema of "${what}": allowed are ${SCHEMAS.join(', ')}`, {
    hint: meant === undefined || meant === of ? 'Pass a kind only after "resource"' : didYouMean(meant),
  });
}
