import { VERSION } from '../../../base/version.ts';
import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { readNodeReports, WITH_ERRORS } from '../../../install/cluster/node-reports.ts';
import { type NodeReport, problemName } from '../../../model/node-report.ts';
import { firstLine, type PodRun } from './node-pods.ts';

/** Time for which an agent must report the same error before a wait ends with it: many pass while a node starts. */
const LASTING_MS = 120_000;

/**
 * Returns a function that reads the first error of an agent of the release, in one line; undefined without one. A report counts once its
 * agent has written it since the first call, as it does every minute to renew its name: what is left of agents that are replaced
 * says nothing of the next. Clocks of nodes are not compared with that of this machine. @throws install/not-ready with the error
 * and its remedy when it lasts for two minutes
 */
export function agentErrors(
  { api, clock, signal }: PodRun,
  release: string = VERSION,
): () => Promise<string | undefined> {
  const sinceMs = new Map<string, number>();
  let before: ReadonlyMap<string, string> | undefined;
  return async () => {
    const reports = await readNodeReports(api, signal, WITH_ERRORS).catch(refused);
    const first = (before ??= new Map(reports.map((report) => [report.metadata.name, writingOf(report)])));
    const written = reports.filter((report) => first.get(report.metadata.name) !== writingOf(report));
    const errors = written.filter(({ spec }) => spec.release === release).flatMap(errorsIn);
    const nowMs = clock.monotonic();
    const names = new Set(errors.map(({ key }) => key));
    for (const key of sinceMs.keys()) if (!names.has(key)) sinceMs.delete(key);
    for (const { key } of errors) if (!sinceMs.has(key)) sinceMs.set(key, nowMs);
    const lasting = errors.find(({ key }) => nowMs - (sinceMs.get(key) ?? nowMs) >= LASTING_MS);
    if (lasting === undefined) return errors[0]?.text;
    throw new NetplugError('install/not-ready', `The agent of a node cannot do its work: ${lasting.text}`, {
      hint:
        lasting.remedy ??
        'Correct the cause, and run the command again; "netplugctl node status --all" lists all of them',
      facts: { node: lasting.node },
    });
  };
}

/** Returns what a wait shows: what is open, and what an agent reports. */
export function withReported(open: string, reported: string | undefined): string {
  return reported === undefined ? open : `${open}; ${reported}`;
}

/** Tells one writing of a report from another. */
function writingOf({ spec: { reportedAt = '', machine } }: NodeReport): string {
  return `${reportedAt} ${machine?.renewedAt ?? ''}`;
}

interface AgentError {
  readonly key: string;
  readonly node: string;
  readonly text: string;
  readonly remedy: string | undefined;
}

function errorsIn({ metadata: { name: node }, spec }: NodeReport): readonly AgentError[] {
  return spec.problems
    .filter(({ severity }) => severity === 'error')
    .map(({ code, text, remedy }) => ({
      key: `${node} ${problemName({ code, text })}`,
      node,
      text: `node "${node}": ${firstLine(text)}`,
      remedy,
    }));
}

/** An account that may install need not read reports. */
function refused(cause: unknown): readonly NodeReport[] {
  if (isNetplugError(cause, 'store/refused')) return [];
  throw cause;
}
