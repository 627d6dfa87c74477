import { type JsonSchema, toJsonSchema } from '@valibot/to-json-schema';
import * as v from 'valibot';
import { COMMON_FIELDS, MAIN_FIELDS } from './fields.ts';
import { IPAM_FIELDS } from './ipam-fields.ts';

/**
 * The JSON Schema of a network configuration, for editors. It knows types and closed lists; rules that join fields are
 * for the decoder alone. Only tools import this file: the library behind it is not for the per-pod path.
 */
export function netconfJsonSchema(): JsonSchema {
  const { name, cniVersion, ...common } = COMMON_FIELDS;
  const { type, ...main } = MAIN_FIELDS;
  const ipam = v.pipe(v.looseObject(IPAM_FIELDS), v.description('Where addresses come from.'));
  const netconf = v.looseObject({ name, cniVersion, type, ...common, ipam, ...main });
  const schema = toJsonSchema(netconf, { typeMode: 'input', errorMode: 'ignore' });
  return { ...schema, title: 'netplug network configuration' };
}
