import { never, NetplugError } from '../../../base/errors.ts';
import { withoutPasswords } from '../../../base/problem.ts';
import { decodeNetconf } from '../../../config/decode.ts';
import { type Env, ENVIRONMENT } from '../../../config/environment.ts';
import { explainNetconf, type Origin, type Setting } from '../../../config/explain.ts';
import { parseJsonObject } from '../../../config/parse-json.ts';
import type { Output } from '../common-options.ts';
import { readDocuments, type DocumentSource } from '../documents.ts';
import { readInputs } from '../inputs.ts';
import type { Context, Status } from '../ports.ts';
import { renderDocument } from '../render-document.ts';
import { renderTable } from '../table.ts';
import { type ChosenPlugin, choosePlugin } from './choose-plugin.ts';

export interface ExplainNetconfOptions {
  readonly file: string;
  /** Type or index of the plugin in a list; undefined for the first of netplug. */
  readonly plugin: string | undefined;
  readonly output: Output;
}

const SHOWN_VARIABLES = ['NETPLUG_CALL_TIMEOUT', 'NETPLUG_SOCKET', 'NETPLUG_STATE_DIR'] as const;

interface Row {
  readonly setting: string;
  readonly value?: unknown;
  readonly source: Origin['kind'] | 'environment';
  /** The position in a file, the path, or the variable. */
  readonly place: readonly string[];
  readonly note?: string;
}

/** Prints the effective configuration of calls, and the source of each value. @throws netconf/invalid */
export async function explainNetconfFile(context: Context, options: ExplainNetconfOptions): Promise<Status> {
  const { io, ports, env } = context;
  const [source, ...others] = await readInputs(context, { paths: [options.file], folders: 'flat' }, LIST_ENDINGS);
  if (source === undefined || others.length > 0) throw notOneFile(options.file);
  const chosen = choosePlugin(parseJsonObject(source.text), options.plugin);
  const { raw, as } = chosen;
  const node = {
    hostname: ports.hostname,
    registered: ports.readRegisteredName(),
    offeredMtu: ports.plugin.readOfferedMtu(),
  };
  const settings = explainNetconf(raw, decodeNetconf(raw, as), { as, node });
  const placeOf = placer(source, chosen);
  const rows = [...settings.map((setting) => rowOf(setting, placeOf, ports.machine.stateDir)), ...fromEnvironment(env)];
  io.stdout(renderDocument(rows, options.output, tableOf));
  return 0;
}

const LIST_ENDINGS = ['.conflist', '.conf', '.json'];

function placer(source: DocumentSource, { pathInFile }: ChosenPlugin): (path: string) => string {
  const { documents } = readDocuments(source, { code: 'netconf/invalid', repeatedKeys: 'last-counts' });
  return (path) => documents[0]?.placeOf(pathInFile(path)) ?? source.name;
}

function rowOf({ path, value, from, note }: Setting, placeOf: (path: string) => string, stateDir: string): Row {
  const shown = value === undefined ? {} : { value: withoutPassword(value) };
  return {
    setting: path,
    ...shown,
    source: from.kind,
    place: placesOf(from, placeOf, stateDir),
    ...(note === undefined ? {} : { note }),
  };
}

function placesOf(from: Origin, placeOf: (path: string) => string, stateDir: string): string[] {
  switch (from.kind) {
    case 'file':
      return [placeOf(from.path)];
    case 'deprecated':
      return from.paths.map((path) => `${placeOf(path)} (${path})`);
    case 'agent':
      return [`${stateDir}/${from.file}`];
    case 'setting':
      return [from.path];
    case 'default':
    case 'host-name':
      return [];
    default:
      return never(from);
  }
}

/** Redacts passwords in URLs. A configuration holds no other secrets, only paths of keys. */
function withoutPassword(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutPassword);
  return typeof value === 'string' ? withoutPasswords(value) : value;
}

/** Returns the variables of this shell; the environment of the runtime may differ. */
function fromEnvironment(env: Env): Row[] {
  return SHOWN_VARIABLES.map((name) => {
    const { byDefault } = ENVIRONMENT[name];
    const value = env[name];
    if (value === undefined || value === '') return { setting: name, value: byDefault, source: 'default', place: [] };
    const note = 'value in this shell; calls use the environment of the container runtime';
    return { setting: name, value, source: 'environment', place: [name], note };
  });
}

const WORDS: Readonly<Record<Row['source'], string>> = {
  file: '',
  deprecated: 'deprecated: ',
  default: 'default',
  'host-name': 'name of this host',
  agent: 'agent: ',
  setting: 'from ',
  environment: 'environment: ',
};

const LONGEST_VALUE = 200;

function tableOf(rows: readonly Row[]): string {
  const cells = rows.map(({ setting, value, source, place, note = '' }) => [
    setting,
    value === undefined ? '-' : shortened(typeof value === 'string' ? value : JSON.stringify(value)),
    value === undefined && source === 'default' ? 'not set' : `${WORDS[source]}${place.join(', ')}`,
    note,
  ]);
  return renderTable(['SETTING', 'VALUE', 'FROM', 'NOTE'], cells);
}

/** Shortens long values, since the longest value sets the width of the table. */
function shortened(text: string): string {
  return text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE - 1)}…` : text;
}

function notOneFile(folder: string): NetplugError {
  return new NetplugError('cli/usage', `Cannot explain "${folder}": several network configurations are in it`, {
    hint: 'Choose one file of the folder; runtimes use the first by name',
  });
}
