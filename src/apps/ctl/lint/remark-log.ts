import { isAbsolute } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type ErrorCode, ERRORS } from '../../../base/error-codes.ts';
import { problemLine } from '../../../base/problem.ts';
import { sarifLog, type SarifResult, type SarifRule } from '../sarif.ts';
import type { PlacedRemark } from './placed-remark.ts';
import { describeEdit } from './render-remarks.ts';

/** Returns the remarks as SARIF, with the error codes as rules. */
export function remarkLog(remarks: readonly PlacedRemark[]): object {
  const codes = [...new Set(remarks.map(({ problem }) => problem.code))].sort();
  return sarifLog('lint', codes.map(ruleOf), remarks.map(resultOf));
}

/** Puts the link into the help text: `helpUri` must be an absolute URL, which the page does not have. */
function ruleOf(id: ErrorCode): SarifRule {
  const page = `docs/errors.md#${id.replace('/', '-')}`;
  const { about } = ERRORS[id];
  return {
    id,
    shortDescription: { text: about },
    help: { text: `${about} See ${page}`, markdown: `${about} See [${id}](${page}).` },
  };
}

function resultOf({ severity, problem, file, region, replacements }: PlacedRemark): SarifResult {
  const artifactLocation = { uri: uriOf(file) };
  const { line: startLine, column: startColumn, endLine, endColumn } = region;
  return {
    rule: problem.code,
    level: severity,
    text: problemLine(severity === 'warning' ? { ...problem, path: '' } : problem),
    location: { physicalLocation: { artifactLocation, region: { startLine, startColumn, endLine, endColumn } } },
    fixes: replacements && [
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
  };
}

/** Returns a URI relative to the working folder, so that the log is valid on other machines. */
function uriOf(file: string): string {
  return isAbsolute(file) ? pathToFileURL(file).href : encodeURI(file).replaceAll(/[?#]/g, encodeURIComponent);
}
