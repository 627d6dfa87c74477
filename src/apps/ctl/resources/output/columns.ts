import { NetplugError } from '../../../../base/errors.ts';
import { didYouMean, nearMiss } from '../../../../base/near-miss.ts';
import { infoOf, type VisibleKind, type VisibleResource } from '../kind-names.ts';
import type { CustomColumn, GetOutput } from './get-output.ts';
import { showValue, valuesAt } from './json-path.ts';

/** A column of the table to be written. */
export interface ShownColumn {
  readonly title: string;
  readonly show: (resource: VisibleResource) => string;
}

/** Text where a resource has nothing to show. */
const NOTHING = '<none>';

const LABELS: ShownColumn = {
  title: 'LABELS',
  show: ({ metadata }) => joined(Object.entries(metadata.labels ?? {}).map(([key, value]) => `${key}=${value}`)),
};

/** The columns of a table of the kind in that form. @throws cli/usage for a title it has not */
export function columnsFor(
  kind: VisibleKind,
  { output, showLabels }: { readonly output: GetOutput; readonly showLabels: boolean },
): readonly ShownColumn[] {
  const all = infoOf(kind).columns;
  const plain = all.filter(({ isWide }) => output.form === 'wide' || !isWide);
  const shown = output.form === 'custom-columns' ? output.columns.map((column) => customColumn(kind, column)) : plain;
  return showLabels ? [...shown.filter(({ title }) => title !== LABELS.title), LABELS] : shown;
}

function customColumn(kind: VisibleKind, column: CustomColumn): ShownColumn {
  const { title } = column;
  if (column.by === 'path') {
    const { path } = column;
    return { title, show: (resource) => joined(valuesAt(path, resource).map(showValue)) };
  }
  const all = infoOf(kind).columns;
  const own = all.find((each) => each.title === title);
  if (own !== undefined) return own;
  const titles = all.map((each) => each.title);
  const meant = nearMiss(title, titles);
  throw new NetplugError('cli/usage', `Cannot show column "${title}": ${kind} has ${titles.join(', ')}`, {
    hint: meant === undefined ? `Say where it stands, such as ${title}:.metadata.name` : didYouMean(meant),
  });
}

function joined(texts: readonly string[]): string {
  return texts.length === 0 ? NOTHING : texts.join(',');
}
