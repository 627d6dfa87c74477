import { type JsonSchema, toJsonSchema } from '@valibot/to-json-schema';
import * as v from 'valibot';
import { field } from '../model/field.ts';
import { COMMON_FIELDS, MAIN_FIELDS } from './fields.ts';
import { IPAM_FIELDS } from './ipam-fields.ts';

/**
 * Returns the JSON Schema of a network configuration, for editors. It contains types and closed lists; only the decoder
 * checks rules across fields. Only tools import this file, because its library is too large for the plugin.
 */
export function netconfJsonSchema(): JsonSchema {
  const { name, cniVersion, ...common } = COMMON_FIELDS;
  const { type, ...main } = MAIN_FIELDS;
  const ipam = field(v.looseObject(IPAM_FIELDS), 'Where addresses come from.');
  const netconf = v.looseObject({ name, cniVersion, type, ...common, ipam, ...main });
  const schema = toJsonSchema(netconf, { typeMode: 'input', errorMode: 'ignore' });
  return { ...schema, title: 'netplug network configuration' };
}
