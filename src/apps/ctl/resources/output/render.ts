import { yamlText } from '../../../../base/yaml-text.ts';
import { never } from '../../../../base/errors.ts';
import { API_VERSION } from '../../../../model/resource.ts';
import { renderTable } from '../../table.ts';
import type { VisibleKind, VisibleResource } from '../kind-names.ts';
import { columnsFor } from './columns.ts';
import type { GetOutput } from './get-output.ts';
import { renderTemplate } from './json-path.ts';

/** Resources of one kind that are to be shown. */
export interface Group {
  readonly kind: VisibleKind;
  readonly items: readonly VisibleResource[];
}

export interface Look {
  readonly output: GetOutput;
  /** Whether what is shown is one resource that was asked for by name, or as many as there may be. */
  readonly form: 'object' | 'list';
  /** Whether a table has the titles of its columns. */
  readonly headers: boolean;
  /** Whether a table has a column with all labels. */
  readonly showLabels: boolean;
}

export function renderGroups(groups: readonly Group[], look: Look): string {
  const { output } = look;
  switch (output.form) {
    case 'table':
    case 'wide':
    case 'custom-columns':
      return groups.map((group) => renderTableOf(group, look)).join('\n');
    case 'name':
      return groups.flatMap(({ items }) => items.map((item) => `${shownName(item)}\n`)).join('');
    case 'yaml':
      return documentsOf(groups, look.form)
        .map((document) => renderYaml(document))
        .join('---\n');
    case 'json':
      return documentsOf(groups, look.form)
        .map((document) => `${JSON.stringify(document, undefined, 2)}\n`)
        .join('');
    case 'jsonpath':
      return renderTemplate(output.template, oneDocumentOf(groups, look.form));
    default:
      return never(output);
  }
}

/** Returns the name of a resource as lists show it, for example `ippool/blue`. */
export function shownName({ kind, metadata }: VisibleResource): string {
  return `${kind.toLowerCase()}/${metadata.name}`;
}

/** Renders YAML as it stands in files. */
export function renderYaml(document: unknown, keys: 'as they are' | 'sorted' = 'as they are'): string {
  // Readers of the older YAML would take a bare time or "on" for something else than a string.
  return yamlText(document, { compat: 'yaml-1.1', sortMapEntries: keys === 'sorted' });
}

function renderTableOf({ kind, items }: Group, look: Look): string {
  const columns = columnsFor(kind, look);
  const rows = items.map((item) => columns.map(({ show }) => show(item)));
  return renderTable(look.headers ? columns.map(({ title }) => title) : undefined, rows);
}

function documentsOf(groups: readonly Group[], form: Look['form']): object[] {
  if (form === 'object') return groups.flatMap(({ items }) => [...items]);
  return groups.map(({ kind, items }) => ({ apiVersion: API_VERSION, kind: `${kind}List`, items }));
}

/** A template goes over one document, whatever the number of kinds. */
function oneDocumentOf(groups: readonly Group[], form: Look['form']): unknown {
  const items = groups.flatMap((group) => [...group.items]);
  return form === 'object' ? items[0] : { apiVersion: API_VERSION, kind: 'List', items };
}
