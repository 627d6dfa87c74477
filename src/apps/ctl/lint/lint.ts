import { setImmediate as nextTurn } from 'node:timers/promises';
import { NetplugError, errnoOf } from '../../../base/errors.ts';
import { type Input, LINT_ENDINGS, tryInputs } from '../inputs.ts';
import { readKnownDnsCaches } from '../policy/read-dns-caches.ts';
import { withPolicyState } from '../policy/read-policy-state.ts';
import type { Context, Status } from '../ports.ts';
import { jsonText } from '../render-document.ts';
import { counted } from '../../../base/counted.ts';
import { type Repaired, repair } from './fix.ts';
import { adviseAmong, adviseWith } from './lint-in-cluster.ts';
import { lintSource, unplaced } from './lint-source.ts';
import { meaningOf, showsToBeOurs } from './recognize.ts';
import type { RemarkSeverity } from '../../../config/remark.ts';
import type { PlacedRemark } from './placed-remark.ts';
import { remarkJson, remarkTable, repairLines } from './render-remarks.ts';
import { remarkLog } from './remark-log.ts';
import { readFile, realpath, stat } from 'node:fs/promises';
import { writeFileAtomically } from '../../../base/atomic-file.ts';
import type { DocumentSource } from '../documents.ts';

export const LINT_OUTPUTS = ['table', 'json', 'sarif'] as const;

export interface LintOptions {
  readonly files: readonly string[];
  readonly folders: 'recursive' | 'flat';
  readonly output: (typeof LINT_OUTPUTS)[number];
  /** Lowest severity to report. */
  readonly severity: RemarkSeverity;
  /** Whether safe changes are ignored, shown or written. */
  readonly fixes: 'leave' | 'show' | 'write';
  /** Whether policies are compared with the pods and policies of the datastore. */
  readonly cluster: boolean;
}

/** Validates files. Returns status 1 when an error remains. */
export async function lint(context: Context, options: LintOptions): Promise<Status> {
  const { files: paths, folders, output, severity, fixes, cluster } = options;
  if (fixes === 'write' && paths.includes('-')) throw unfixable();
  const inputs = await tryInputs(context, { paths, folders }, LINT_ENDINGS);
  const texts = inputs.filter((input) => 'text' in input);
  const sources = texts.filter((input) => !input.isFound || showsToBeOurs(input));
  const unread = inputs.flatMap((input) => ('failure' in input ? [unreadRemark(input)] : []));
  const objects = sources.filter((source) => meaningOf(source) === 'objects');
  const advise = cluster
    ? await withPolicyState(context, async (state) =>
        adviseWith(state, objects, await readKnownDnsCaches(context, (why) => context.io.stderr(`warning: ${why}\n`))),
      )
    : adviseAmong(objects);
  const results: Repaired[] = [];
  for (const source of sources) {
    await nextTurn();
    context.signal.throwIfAborted();
    if (fixes === 'leave') results.push({ source, repairs: [], remarks: lintSource(source, advise) });
    else results.push(await repair(source, context.signal));
  }
  if (fixes === 'write') {
    for (const [index, { source, repairs }] of results.entries()) {
      if (repairs.length > 0) await writeRepaired(source, { readAs: sources[index]?.text ?? '' });
    }
  }
  const said = results.flatMap((each, index) =>
    fixes === 'show' ? lintSource(sources[index] ?? each.source) : each.remarks,
  );
  const remarks = [...unread, ...said].filter((remark) => severity === 'warning' || remark.severity === 'error');
  const { io } = context;
  const passedOver = texts.length - sources.length;
  if (passedOver > 0) {
    io.stderr(`${counted(passedOver, 'file')} ignored: neither network configurations nor resources nor objects\n`);
  }
  if (output === 'sarif') io.stdout(jsonText(remarkLog(remarks)));
  else if (output === 'json') io.stdout(jsonText(remarkJson(remarks, results)));
  else {
    for (const result of results) io.stdout(repairLines(result, fixes));
    io.stdout(remarkTable(remarks, sources.length + unread.length));
  }
  return remarks.some((remark) => remark.severity === 'error') ? 1 : 0;
}

function unreadRemark(input: Extract<Input, { failure: unknown }>): PlacedRemark {
  const { message, code } = input.failure;
  return unplaced({ severity: 'error', problem: { path: '', message, code } }, input);
}

function unfixable(): NetplugError {
  return new NetplugError('cli/usage', 'Cannot fix standard input: it is not a file', {
    hint: 'Pass a file, or print the changes with --dry-run',
  });
}

/** Replaces the file atomically, keeping permissions and links. Fails if the file has changed. @throws cli/usage */
async function writeRepaired({ name, text }: DocumentSource, { readAs }: { readonly readAs: string }): Promise<void> {
  try {
    const path = await realpath(name);
    const { mode } = await stat(path);
    if ((await readFile(path, 'utf8')) !== readAs) {
      throw new NetplugError('cli/usage', `Cannot fix "${name}": the file changed since it was read`, {
        hint: 'Run the command again',
      });
    }
    await writeFileAtomically(path, { text, mode: mode & 0o7777 });
  } catch (cause) {
    if (cause instanceof NetplugError) throw cause;
    throw new NetplugError('cli/usage', `Cannot fix "${name}": ${errnoOf(cause) ?? String(cause)}`, {
      hint: 'Make the file and its folder writable, or print the changes with --dry-run',
      cause,
    });
  }
}
