import { isAbsolute } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type ErrorCode, ERRORS } from '../../../base/error-codes.ts';
import { problemLine } from '../../../base/problem.ts';
import { VERSION } from '../../../base/version.ts';
import type { PlacedRemark } from './placed-remark.ts';
import { describeEdit } from './render-remarks.ts';

export const SARIF_SCHEMA =
  'https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json';

/** Returns the remarks as a log of the Static Analysis Results Interchange Format (SARIF), version 2.1.0. */
export function sarifLog(remarks: readonly PlacedRemark[]): unknown {
  const codes = [...new Set(remarks.map(({ problem }) => problem.code))].sort();
  return {
    $schema: SARIF_SCHEMA,
    version: '2.1.0',
    runs: [
      {
        tool: {
          driver: { name: 'netplugctl lint', semanticVersion: VERSION.replace(/^v/, ''), rules: codes.map(ruleOf) },
        },
        columnKind: 'utf16CodeUnits',
        results: remarks.map((remark) => resultOf(remark, codes)),
      },
    ],
  };
}

/** Puts the link into the help text: `helpUri` must be an absolute URL, which the page does not have. */
function ruleOf(id: ErrorCode): unknown {
  const page = `docs/errors.md#${id.replace('/', '-')}`;
  const { about } = ERRORS[id];
  return {
    id,
    shortDescription: { text: about },
    help: { text: `${about} See ${page}`, markdown: `${about} See [${id}](${page}).` },
  };
}

function resultOf(
  { severity, problem, file, region, replacements }: PlacedRemark,
  codes: readonly ErrorCode[],
): unknown {
  const artifactLocation = { uri: uriOf(file) };
  const { line: startLine, column: startColumn, endLine, endColumn } = region;
  return {
    ruleId: problem.code,
    ruleIndex: codes.indexOf(problem.code),
    level: severity,
    message: { text: problemLine(severity === 'warning' ? { ...problem, path: '' } : problem) },
    locations: [{ physicalLocation: { artifactLocation, region: { startLine, startColumn, endLine, endColumn } } }],
    ...(replacements === undefined
      ? {}
      : {
          fixes: [
            {
              description: { text: (problem.fix ?? []).map(describeEdit).join('; ') },
              artifactChanges: [
                {
                  artifactLocation,
                  replacements: replacements.map(({ start, end, text }) => ({
                    deletedRegion: { charOffset: start, charLength: end - start },
                    ...(text === '' ? {} : { insertedContent: { text } }),
                  })),
                },
              ],
            },
          ],
        }),
  };
}

/** Returns a URI relative to the working folder, so that the log is valid on other machines. */
function uriOf(file: string): string {
  return isAbsolute(file) ? pathToFileURL(file).href : encodeURI(file).replaceAll(/[?#]/g, encodeURIComponent);
}
