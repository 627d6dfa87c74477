import { joinPaths } from '../../../base/problem.ts';
import { VERSION } from '../../../base/version.ts';
import { tryParseJson } from '../../../base/try-parse-json.ts';
import { checkManifest, type ManifestRemark } from '../../../install/cluster/checks/manifest-checks.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { readDocuments, type DocumentSource } from '../documents.ts';
import { readInputs } from '../inputs.ts';
import { lintNetconf } from '../../../config/lint-conflist.ts';
import { NODE_NAME_PLACEHOLDER } from '../../../install/places.ts';
import { unplaced } from '../lint/lint-source.ts';
import type { PlacedRemark } from '../lint/placed-remark.ts';
import { remarkJson, remarkTable } from '../lint/render-remarks.ts';
import { remarkLog } from '../lint/remark-log.ts';
import type { Context, Status } from '../ports.ts';
import { jsonText } from '../render-document.ts';

interface LintManifestOptions {
  readonly files: readonly string[];
  readonly output: 'table' | 'json' | 'sarif';
}

/** Checks manifests of an installation. Returns 1 when a file has an error. */
export async function lintManifests(context: Context, { files, output }: LintManifestOptions): Promise<Status> {
  const { io, ports } = context;
  const sources = await readInputs(context, { paths: files, folders: 'flat' });
  const remarks = sources.flatMap((source) => remarksOfManifest(source, ports.clock.now()));
  if (output === 'table') io.stdout(remarkTable(remarks, sources.length));
  else io.stdout(jsonText(output === 'json' ? remarkJson(remarks, []) : remarkLog(remarks)));
  return remarks.some(({ severity }) => severity === 'error') ? 1 : 0;
}

export function remarksOfManifest(source: DocumentSource, now: number): readonly PlacedRemark[] {
  const { documents, problems } = readDocuments(source, 'resource/invalid');
  const unread = problems.map((problem) => unplaced({ severity: 'error', problem }, source, problem.region));
  const values = documents.map(({ value }) => value);
  const found = [...checkManifest(values, { release: VERSION, now }), ...lintConflists(values)];
  const placed = found.map(({ document, ...remark }) =>
    unplaced(remark, source, documents[document]?.regionOf(remark.problem.path)),
  );
  return [...unread, ...placed].sort((a, b) => a.region.line - b.region.line);
}

/** Checks the network configuration in the ConfigMap as a file of its own would be. */
function lintConflists(values: readonly unknown[]): readonly ManifestRemark[] {
  return values.flatMap((value, document): ManifestRemark[] => {
    const data = isRecord(value) && value['kind'] === 'ConfigMap' ? value['data'] : undefined;
    const text = isRecord(data) ? data['conflist'] : undefined;
    if (typeof text !== 'string') return [];
    // The agent fills the name of its node in.
    const conflist = tryParseJson(text.replaceAll(NODE_NAME_PLACEHOLDER, 'node'));
    if (!isRecord(conflist)) {
      const problem = { path: 'data.conflist', message: 'is no JSON object', code: 'netconf/invalid' } as const;
      return [{ severity: 'error', document, problem }];
    }
    return lintNetconf(conflist)
      .filter(({ problem }) => !problem.message.includes('<KV_ENDPOINTS>'))
      .map(({ severity, problem }) => ({
        severity,
        document,
        problem: { ...problem, path: joinPaths('data.conflist', problem.path) },
      }));
  });
}
