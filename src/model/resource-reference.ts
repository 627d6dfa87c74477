import { stringify } from 'yaml';
import type { KindDeclaration } from './kind-info.ts';
import { KIND_NAMES, KINDS, type ResourceKind } from './kinds.ts';
import { API_VERSION } from './resource.ts';
import { specSchema } from './resource-schema.ts';
import { fieldTable } from './schema-table.ts';

/** The reference page of all kinds, in Markdown. Written from the declarations, never by hand. */
export function resourceReference(): string {
  return [
    '# Resources',
    '',
    'Written by `npm run docs:write` from the declarations in `src/model`; do not edit.',
    '',
    `Every resource has \`apiVersion: ${API_VERSION}\`, \`kind\`, \`metadata\` and \`spec\`. Names are lower-case letters, digits,`,
    '`-` and `.`, at most 253 characters. The tables have the fields of `spec`; any other field is refused, with what it was',
    'probably meant to be.',
    'Editors check files with [schema/resources.schema.json](schema/resources.schema.json), or with the schema of one kind beside it.',
    '',
    ...[...KIND_NAMES].sort().flatMap(kindSection),
  ].join('\n');
}

/** The example of a kind, complete. */
export function exampleOf(kind: ResourceKind): object {
  return { apiVersion: API_VERSION, kind, ...KINDS[kind].example };
}

function kindSection(kind: ResourceKind): string[] {
  const {
    about,
    plural,
    shortNames,
    scope,
    enforced,
    writtenBy,
    names,
    rules = [],
  }: KindDeclaration<never> = KINDS[kind];
  const words = [plural, ...shortNames].map((word) => `\`${word}\``).join(', ');
  const place =
    scope === 'cluster' ? 'Belongs to the whole cluster.' : 'Belongs to a namespace, `default` unless named.';
  const named = { default: ' The only name is `default`.', 'default-or-node': ' Named `default` or `node.<name>`.' };
  return [
    `## ${kind}`,
    '',
    about,
    '',
    ...(enforced === false ? ['**Stored; not enforced yet by this release.**', ''] : []),
    ...(typeof enforced === 'string' ? [`**Partly enforced by this release:** ${enforced}`, ''] : []),
    ...(writtenBy === 'netplug' ? ['Written by netplug only; users read it.', ''] : []),
    `On the command line: ${words}. ${place}${names === undefined ? '' : named[names]}`,
    '',
    ...fieldTable(specSchema(kind)),
    '',
    ...rules.map((rule) => `- ${rule}`),
    ...(rules.length === 0 ? [] : ['']),
    '```yaml',
    ...stringify(exampleOf(kind), { lineWidth: 0, singleQuote: true }).trimEnd().split('\n'),
    '```',
    '',
  ];
}
