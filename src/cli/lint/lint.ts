import { isNetplugError, type NetplugError } from '../../base/errors.ts';
import { problemLine } from '../../base/problem.ts';
import { isRecord } from '../../model/read-schema.ts';
import { parseJsonObject } from '../../netconf/parse-json.ts';
import { type PlacedProblem, type ReadDocument, readDocuments, type Source } from '../documents.ts';
import { LINT_ENDINGS, readInputs } from '../inputs.ts';
import type { Output } from '../common-options.ts';
import { lintNetconf, type Remark } from './lint-conflist.ts';
import type { Context, Status } from '../ports.ts';
import { inspectDocument } from '../resources/resource-files.ts';
import { counted } from '../table.ts';

export interface LintOptions {
  readonly files: readonly string[];
  readonly output: Output;
}

/** A remark with the line it is about. */
export interface PlacedRemark {
  readonly severity: Remark['severity'];
  readonly problem: PlacedProblem;
}

/** Says everything about files; never asks a datastore. Status 1 when a file has an error. */
export async function lint(context: Context, { files, output }: LintOptions): Promise<Status> {
  const { io } = context;
  const sources = await readInputs(context, { paths: files, folders: 'flat' }, LINT_ENDINGS);
  const remarks = sources.flatMap((source) => inOrder(lintSource(source)));
  const errors = remarks.filter(({ severity }) => severity === 'error').length;
  if (output === 'json') {
    io.stdout(
      `${JSON.stringify(
        remarks.map(({ severity, problem }) => ({ severity, ...problem })),
        undefined,
        2,
      )}\n`,
    );
  } else {
    for (const { severity, problem } of remarks) io.stdout(`${problem.place}: ${severity}: ${problemLine(problem)}\n`);
    const warnings = remarks.length - errors;
    io.stdout(`${counted(sources.length, 'file')}: ${counted(errors, 'error')}, ${counted(warnings, 'warning')}\n`);
  }
  return errors === 0 ? 0 : 1;
}

/** Resources when a document names its apiVersion and kind; otherwise a network configuration, which must be JSON. */
export function lintSource(source: Source): readonly PlacedRemark[] {
  const { documents, problems } = readDocuments(source, 'resource/invalid');
  const isResource = documents.some(({ value }) => looksLikeResource(value)) || /\.ya?ml$/.test(source.name);
  if (!isResource) return lintJson(source, documents[0]);
  const inspected = documents.flatMap((document) => inspectDocument(document).problems);
  return [...problems, ...inspected].map((problem) => ({ severity: 'error', problem }));
}

function lintJson({ name, text }: Source, document: ReadDocument | undefined): readonly PlacedRemark[] {
  try {
    const raw = parseJsonObject(text);
    // What JSON takes and YAML does not (a key given twice) leaves no way back to lines.
    const placeOf = document?.placeOf ?? ((): string => name);
    return lintNetconf(raw).map(({ severity, problem }) => ({
      severity,
      problem: { ...problem, place: placeOf(problem.path) },
    }));
  } catch (cause) {
    if (!isNetplugError(cause, 'cni/input-undecodable')) throw cause;
    return [{ severity: 'error', problem: undecodable(name, cause) }];
  }
}

function undecodable(name: string, { message, hint, code, facts }: NetplugError): PlacedProblem {
  const { line = 1, column = 1 } = facts;
  const place = `${name}:${String(line)}:${String(column)}`;
  return { path: '', message, code, place, ...(hint === undefined ? {} : { hint }) };
}

/** By line, then column. */
function inOrder(remarks: readonly PlacedRemark[]): PlacedRemark[] {
  return [...remarks].sort((a, b) => a.problem.place.localeCompare(b.problem.place, 'en', { numeric: true }));
}

function looksLikeResource(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(looksLikeResource);
  return isRecord(value) && 'apiVersion' in value && 'kind' in value;
}
