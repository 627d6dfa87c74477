import { never } from '../../../../base/errors.ts';
import { renderTable } from '../../table.ts';
import type { ShownEvent } from '../followed-resources.ts';
import type { VisibleKind } from '../kind-names.ts';
import { columnsFor } from './columns.ts';
import { renderTemplate } from './json-path.ts';
import { type Look, shownName, renderYaml } from './render.ts';

/** Writes events as they come; the columns of a table stay as wide as they have become. */
export function eventRenderer(kind: VisibleKind, look: Omit<Look, 'form'>): (events: readonly ShownEvent[]) => string {
  const { output } = look;
  switch (output.form) {
    case 'table':
    case 'wide':
    case 'custom-columns':
      return tableRenderer(kind, look);
    case 'json':
      return eachAs(({ type, resource }) => `${JSON.stringify({ type, object: resource })}\n`);
    case 'yaml':
      return eachAs(({ type, resource }) => `--- # ${type}\n${renderYaml(resource)}`);
    case 'name':
      return eachAs(({ type, resource }) => `${type} ${shownName(resource)}\n`);
    case 'jsonpath':
      return eachAs(({ resource }) => renderTemplate(output.template, resource));
    default:
      return never(output);
  }
}

function eachAs(render: (event: ShownEvent) => string): (events: readonly ShownEvent[]) => string {
  return (events) => events.map(render).join('');
}

function tableRenderer(kind: VisibleKind, look: Omit<Look, 'form'>): (events: readonly ShownEvent[]) => string {
  const columns = columnsFor(kind, look);
  const heads = ['EVENT', ...columns.map(({ title }) => title)];
  let widths = ['MODIFIED', ...heads.slice(1)].map((text) => text.length);
  let isFirst = true;
  return (events) => {
    const rows = events.map(({ type, resource }) => [type, ...columns.map(({ show }) => show(resource))]);
    widths = widths.map((width, column) => Math.max(width, ...rows.map((row) => (row[column] ?? '').length)));
    const hasTitles = isFirst && look.headers;
    isFirst = false;
    return renderTable(hasTitles ? heads : undefined, rows, widths);
  };
}
