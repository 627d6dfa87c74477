import { isNetplugError } from '../../../base/errors.ts';
import { parseJsonObject } from '../../../config/parse-json.ts';
import { type Region, START } from '../document-tree.ts';
import { type ReadDocument, readDocuments, type DocumentSource, withoutByteOrderMark } from '../documents.ts';
import { lintNetconf, slipInPlugins, isList } from '../../../config/lint-conflist.ts';
import type { ClusterAdvice } from './lint-in-cluster.ts';
import { NO_CLUSTER } from './lint-policy.ts';
import { lintObjects } from './lint-objects.ts';
import { meaningOf } from './recognize.ts';
import type { Remark } from '../../../config/remark.ts';
import type { PlacedRemark } from './placed-remark.ts';
import { replacementsFor } from './replacements.ts';

/** Returns the remarks on objects or on a network configuration, sorted by line and column. */
export function lintSource(source: DocumentSource, advise: ClusterAdvice = NO_CLUSTER): readonly PlacedRemark[] {
  return inOrder(meaningOf(source) === 'objects' ? lintYaml(source, advise) : lintJson(source));
}

function lintYaml(source: DocumentSource, advise: ClusterAdvice): PlacedRemark[] {
  const { documents, problems } = readDocuments(source, 'resource/invalid');
  return [
    ...problems.map((problem) => unplaced({ severity: 'error', problem }, source, problem.region)),
    ...documents.flatMap((document) => lintObjects(document, advise).map((remark) => placed(remark, source, document))),
  ];
}

function lintJson(source: DocumentSource): PlacedRemark[] {
  try {
    const raw = parseJsonObject(source.text);
    const remarks = slipInPlugins(raw) ?? [...lintFileName(raw, source.name), ...lintNetconf(raw)];
    const [document] = readDocuments(source, { code: 'netconf/invalid', repeatedKeys: 'last-counts' }).documents;
    if (document === undefined) return remarks.map((remark) => unplaced(remark, source));
    return [...remarks.map((remark) => placed(remark, source, document)), ...repeated(source, document)];
  } catch (cause) {
    if (!isNetplugError(cause, 'cni/input-undecodable')) throw cause;
    const { message, hint, code, facts } = cause;
    const advice = hint?.replace(/^[A-Z]/, (letter) => letter.toLowerCase());
    const problem = { path: '', message, code, ...(advice === undefined ? {} : { hint: advice }) };
    const [line, column] = [Number(facts['line'] ?? 1), Number(facts['column'] ?? 1)];
    return [unplaced({ severity: 'error', problem }, source, { line, column, endLine: line, endColumn: column })];
  }
}

function repeated(source: DocumentSource, { repetitions }: ReadDocument): PlacedRemark[] {
  return repetitions.map(({ key, region }) => {
    const message = `Key "${key}" is repeated further down in the same object, and only the last one counts`;
    return unplaced({ severity: 'warning', problem: { path: '', message, code: 'netconf/invalid' } }, source, region);
  });
}

function placed(remark: Remark, { name, text }: DocumentSource, { spotOf, regionOf }: ReadDocument): PlacedRemark {
  const syntax = /^\s*[{[]/.test(withoutByteOrderMark(text)) ? 'json' : 'yaml';
  const { path, fix } = remark.problem;
  const replacements =
    fix === undefined ? undefined : replacementsFor(fix, { text: withoutByteOrderMark(text), syntax, spotOf });
  return { ...remark, file: name, region: regionOf(path), replacements };
}

/** Returns a remark on a region of a source that no path leads to. */
export function unplaced(remark: Remark, { name }: Pick<DocumentSource, 'name'>, region: Region = START): PlacedRemark {
  return { ...remark, file: name, region, replacements: undefined };
}

function inOrder(remarks: readonly PlacedRemark[]): readonly PlacedRemark[] {
  return [...remarks].sort(({ region: a }, { region: b }) =>
    a.line === b.line ? a.column - b.column : a.line - b.line,
  );
}

/** Checks the file extension, by which runtimes distinguish lists from single plugins. */
function lintFileName(raw: Readonly<Record<string, unknown>>, file: string): readonly Remark[] {
  if (isList(raw) && file.endsWith('.conf')) {
    const message = 'makes this a list, and runtimes look for lists in files that end in .conflist';
    return refuse('plugins', message, 'rename the file so that it ends in .conflist');
  }
  if (isList(raw) || !file.endsWith('.conflist')) return [];
  const message = 'found a single plugin, while runtimes look for lists in files that end in .conflist';
  return refuse('', message, 'put it into "plugins": [ ], name and cniVersion outside, or let the file end in .conf');
}

function refuse(path: string, message: string, hint: string): Remark[] {
  return [{ severity: 'error', problem: { path, message, hint, code: 'netconf/invalid' } }];
}
