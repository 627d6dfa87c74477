import { ownValue } from '../../../base/own-value.ts';
import { CNI_VERSIONS } from '../../../config/netconf.ts';
import { netconfJsonSchema } from '../../../config/schema.ts';
import { CHAINED, CHAINED_TYPES } from '../../../config/lint-chain.ts';

type Schema = Readonly<Record<string, unknown>>;

/** Returns the JSON Schema of a list with netplug; it does not restrict entries of other plugins. */
export function conflistJsonSchema(): Schema {
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'netplug network configuration list',
    type: 'object',
    properties: {
      name: { type: 'string', minLength: 1, description: 'Network name.' },
      cniVersion: { enum: CNI_VERSIONS, description: 'Version of the CNI specification the list is written in.' },
      cniVersions: { type: 'array', items: { enum: CNI_VERSIONS }, description: 'Versions the list may be read as.' },
      disableCheck: { type: 'boolean', description: 'Whether runtimes leave out CHECK.' },
      disableGC: { type: 'boolean', description: 'Whether runtimes leave out GC.' },
      loadOnlyInlinedPlugins: { type: 'boolean', description: 'Whether plugins in other files are left out.' },
      plugins: { type: 'array', minItems: 1, items: entrySchema(), description: 'Plugins, in the order of ADD.' },
    },
    required: ['name', 'cniVersion', 'plugins'],
  };
}

function entrySchema(): Schema {
  return {
    type: 'object',
    properties: { type: { type: 'string', minLength: 1, description: 'Name of the plugin.' } },
    required: ['type'],
    allOf: [whenType('netplug', ownEntry()), ...CHAINED_TYPES.map((type) => whenType(type, chainedEntry(type)))],
  };
}

/** Omits name and version, which runtimes copy from the list into the entry. */
function ownEntry(): Schema {
  const { properties = {} } = netconfJsonSchema();
  const { name: _, cniVersion: __, ...own } = properties;
  return { properties: own, required: ['ipam'] };
}

function chainedEntry(type: string): Schema {
  const { flags = [], capability = '' } = ownValue(CHAINED, type) ?? {};
  const capabilities = { type: 'object', properties: { [capability]: { type: 'boolean' } } };
  return {
    properties: { ...Object.fromEntries(flags.map((flag) => [flag, { type: 'boolean' }])), capabilities },
    required: ['capabilities'],
  };
}

function whenType(type: string, then: Schema): Schema {
  // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema; a schema is never awaited
  return { if: { properties: { type: { const: type } } }, then };
}
