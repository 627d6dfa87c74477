import { at } from '../../../base/problem.ts';
import { RELEASE_LABEL } from '../names.ts';
import { labelIn } from '../../../kube/objects/content.ts';
import { isRecord } from '../../../model/read-schema.ts';
import type { DefinitionFact } from './preflight-facts.ts';

/** Compares a definition in the cluster with that of this release. */
export function compareDefinitions(live: unknown, own: unknown): Omit<DefinitionFact, 'name'> {
  const [theirs, ours] = [fieldsOf(live), fieldsOf(own)];
  return {
    release: labelIn(live, RELEASE_LABEL),
    further: [...theirs.difference(ours)].sort(),
    lacking: [...ours.difference(theirs)].sort(),
  };
}

/** Returns the paths of all fields in the schemas of all versions. */
function fieldsOf(definition: unknown): ReadonlySet<string> {
  const spec = isRecord(definition) ? definition['spec'] : undefined;
  const versions: readonly unknown[] = isRecord(spec) && Array.isArray(spec['versions']) ? spec['versions'] : [];
  const fields = new Set<string>();
  for (const version of versions) {
    const schema = isRecord(version) ? version['schema'] : undefined;
    collect(isRecord(schema) ? schema['openAPIV3Schema'] : undefined, '', fields);
  }
  return fields;
}

function collect(schema: unknown, path: string, fields: Set<string>): void {
  if (!isRecord(schema)) return;
  const { properties, items, additionalProperties } = schema;
  for (const [name, inner] of isRecord(properties) ? Object.entries(properties) : []) {
    const place = at(path, name);
    fields.add(place);
    collect(inner, place, fields);
  }
  collect(items, `${path}[]`, fields);
  collect(additionalProperties, `${path}[*]`, fields);
}
