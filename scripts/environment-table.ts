// The tables of environment variables in the documentation, from the declaration in src/config/environment.ts.
import { markdownTable } from '../src/base/markdown-table.ts';
import { type ConfiguredProgram, DATASTORE_VARIABLES, ENVIRONMENT } from '../src/config/environment.ts';

interface Row {
  readonly name: string;
  readonly byDefault: string;
  readonly meaning: string;
}

const TITLES = ['Variable', 'Default', 'Meaning'];

/** The table of a marker such as `netplug-agent`, or `datastore` for the variables that name the datastore. */
function tableOf(marker: string): string {
  const rows = marker === 'datastore' ? datastoreRows() : programRows(marker as ConfiguredProgram);
  if (rows.length === 0) throw new Error(`no environment variable belongs to "${marker}"`);
  return markdownTable(
    TITLES,
    rows.map(({ name, byDefault, meaning }) => [`\`${name}\``, byDefault, meaning]),
  );
}

function datastoreRows(): Row[] {
  return Object.entries(DATASTORE_VARIABLES).map(([name, { byDefault, meaning }]) => ({
    name,
    byDefault: quoted(byDefault),
    meaning,
  }));
}

function programRows(program: ConfiguredProgram): Row[] {
  return Object.entries(ENVIRONMENT).flatMap(([name, { meaning, byDefault, ...more }]) => {
    const { [program]: here }: Partial<Record<ConfiguredProgram, string>> = meaning;
    const others: Partial<Record<ConfiguredProgram, string>> =
      'otherDefaults' in more ? (more.otherDefaults ?? {}) : {};
    const text = quoted(others[program] ?? byDefault);
    const shown = 'shownDefault' in more && more.shownDefault !== undefined ? more.shownDefault : text;
    return here === undefined ? [] : [{ name, byDefault: shown, meaning: here }];
  });
}

function quoted(text: string): string {
  return text === '' ? 'none' : `\`${text}\``;
}

/** Returns the page with the table between each pair of markers as the declaration has it. */
export function withEnvironmentTables(page: string): string {
  return page.replaceAll(
    /(<!-- environment: (\S+) -->\n)[^]*?(<!-- end -->)/g,
    (_, begin: string, marker: string, end: string) => `${begin}\n${tableOf(marker)}\n\n${end}`,
  );
}
