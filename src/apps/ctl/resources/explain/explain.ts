import * as v from 'valibot';
import { NetplugError } from '../../../../base/errors.ts';
import { didYouMean, nearMiss } from '../../../../base/near-miss.ts';
import { type KindDeclaration } from '../../../../model/kind-info.ts';
import { KINDS, type ResourceKind } from '../../../../model/kinds.ts';
import { METADATA_FIELDS } from '../../../../model/metadata.ts';
import { API_VERSION } from '../../../../model/resource.ts';
import type { Context, Status } from '../../ports.ts';
import { painterFor, type Paint } from '../../screen.ts';
import { ENDPOINT_INFO, visibleKind } from '../kind-names.ts';
import { type FieldFacts, fieldFacts } from './field-facts.ts';

export interface ExplainOptions {
  /** `KIND`, or `KIND.path.to.field`. */
  readonly what: string;
  readonly depth: 'one level' | 'all levels';
}

/** Says what a kind or a field of it is for, what may stand there, and whether this release acts on it. */
export async function explain({ io }: Pick<Context, 'io'>, { what, depth }: ExplainOptions): Promise<Status> {
  const [word = '', ...path] = what.split('.').map((part) => part.replace(/\[\d*\]$/, ''));
  const kind = visibleKind(word);
  if (kind === 'WorkloadEndpoint') {
    io.stdout(
      `WorkloadEndpoint: the network interface of a pod. netplug writes it; it is read-only.\nShort names: ${ENDPOINT_INFO.shortNames.join(', ')}\n`,
    );
    return Promise.resolve(0);
  }
  const paint = painterFor(io.screen);
  const place = placeOf(kind, path);
  const title = `${paint('bold', [kind, ...path].join('.'))}\n`;
  const about = path.length === 0 ? kindText(kind, paint) : [title, ...factLines(place, '  ')].join('');
  const fields = place.fields.flatMap((field) => lines(field, { indent: '  ', depth, paint }));
  const list =
    fields.length === 0
      ? ''
      : `\n${paint('bold', path.length === 0 ? 'FIELDS of spec' : 'FIELDS')}\n${fields.join('')}`;
  io.stdout(`${about}${list}${path.length === 0 ? rulesText(kind, paint) : ''}`);
  return Promise.resolve(0);
}

/** The field that the path leads to; without one, the spec. @throws cli/usage when there is none */
function placeOf(kind: ResourceKind, path: readonly string[]): FieldFacts {
  const spec = fieldFacts('spec', v.looseObject(KINDS[kind].fields));
  const root = { metadata: fieldFacts('metadata', v.looseObject(METADATA_FIELDS)), spec };
  let place: FieldFacts = { ...spec, name: kind, fields: [root.metadata, root.spec] };
  for (const [index, name] of path.entries()) {
    const found = place.fields.find((field) => field.name === name);
    if (found === undefined) throw noField(place, [kind, ...path.slice(0, index)].join('.'), name);
    place = found;
  }
  return path.length === 0 ? spec : place;
}

function noField({ fields }: FieldFacts, where: string, name: string): NetplugError {
  const names = fields.map((field) => field.name);
  const meant = nearMiss(name, names);
  const state = names.length === 0 ? `${where} has no fields` : `${where} has ${names.join(', ')}`;
  return new NetplugError('cli/usage', `Cannot explain field "${name}": ${state}`, {
    hint: meant === undefined ? `See "netplugctl explain ${where}"` : didYouMean(meant),
  });
}

function kindText(kind: ResourceKind, paint: Paint): string {
  const { plural, shortNames, scope, about, enforced, writtenBy, names }: KindDeclaration<never> = KINDS[kind];
  const acts = enforced === true ? 'yes' : enforced === false ? 'not yet: it is stored and checked' : enforced;
  const facts = {
    KIND: kind,
    VERSION: API_VERSION,
    NAMES: [plural, ...shortNames].join(', '),
    SCOPE: scope,
    'ONE IS NAMED': names === undefined ? undefined : names === 'default' ? 'default' : 'default or node.<name>',
    'WRITTEN BY': writtenBy,
    ENFORCED: acts,
  };
  const rows = Object.entries(facts).flatMap(([title, text]) =>
    text === undefined ? [] : [`${paint('bold', `${title}:`.padEnd(14))}${text}\n`],
  );
  return `${rows.join('')}\n${about}\n`;
}

function lines(
  field: FieldFacts,
  { indent, depth, paint }: { indent: string; depth: ExplainOptions['depth']; paint: Paint },
): readonly string[] {
  const deeper = `${indent}    `;
  const below = depth === 'all levels' ? field.fields : [];
  return [
    `${indent}${paint('bold', field.name)}\n`,
    ...factLines(field, deeper),
    ...below.flatMap((each) => lines(each, { indent: deeper, depth, paint })),
  ];
}

function factLines(field: FieldFacts, indent: string): readonly string[] {
  const { type, about, allowed, byDefault, isRequired, mergeKey, fields } = field;
  const type_ =
    fields.length > 0 && type === 'object' ? `object with ${fields.map(({ name }) => name).join(', ')}` : type;
  return [
    about,
    `type: ${type_}${isRequired ? ', needed' : ''}`,
    allowed.length === 0 ? undefined : `allowed: ${allowed.join('; ')}`,
    byDefault === undefined ? undefined : `default: ${JSON.stringify(byDefault)}`,
    mergeKey === undefined ? undefined : `items are told apart by: ${mergeKey}`,
  ].flatMap((text) => (text === undefined ? [] : [`${indent}${text}\n`]));
}

function rulesText(kind: ResourceKind, paint: Paint): string {
  const { rules = [] }: KindDeclaration<never> = KINDS[kind];
  return rules.length === 0 ? '' : `\n${paint('bold', 'RULES')}\n${rules.map((rule) => `  ${rule}\n`).join('')}`;
}
