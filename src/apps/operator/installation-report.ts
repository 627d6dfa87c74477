import { isDeepStrictEqual } from 'node:util';
import type { InstallationSpec } from '../../model/installation.ts';
import type { ConditionStatus } from '../../model/status-condition.ts';
import type {
  ConditionType,
  InstallationComponent,
  InstallationCondition,
  InstallationStatus,
} from '../../model/installation-status.ts';
import type { ReportedNodes } from '../../install/cluster/node-reports.ts';

/** Reason why the operator cannot carry out what is asked, for a person who can act. */
export interface ReportedProblem {
  readonly reason: 'InvalidConfiguration' | 'NotPermitted' | 'Refused' | 'DefinitionMissing' | 'OtherOwner';
  readonly message: string;
}

/** Observations of one run. */
export interface InstallationReport {
  readonly generation: number | undefined;
  readonly release: string;
  readonly problems: readonly ReportedProblem[];
  readonly components: readonly InstallationComponent[];
  /** Whether the workloads serve pods: false if one does not, undefined if that cannot be read. */
  readonly isServing: boolean | undefined;
  readonly warnings: readonly string[];
  /** What agents report of their nodes; missing until that was read. */
  readonly reported?: ReportedNodes;
  readonly computed: InstallationSpec | undefined;
  /** The servers of the fan-out, and the agents that they serve; undefined where there are none. */
  readonly fanOut?: InstallationStatus['typha'];
  /** Reason why a removal waits; undefined while the installation is not removed. */
  readonly removing?: string;
}

interface Verdict {
  readonly status: ConditionStatus;
  readonly reason: string;
  readonly message: string;
}

/** Limit of a condition's message in the API of Kubernetes. */
const LONGEST = 32_768;

/** Returns the status to write: conditions keep the time of their last transition. Pure. */
export function statusOf(report: InstallationReport, before: InstallationStatus, now: string): InstallationStatus {
  const verdicts: Readonly<Record<ConditionType, Verdict>> = {
    Available: availability(report),
    Progressing: progress(report),
    Degraded: degradation(report),
  };
  const conditions = Object.entries(verdicts).map(([type, verdict]): InstallationCondition => {
    const known = before.conditions?.find((condition) => condition.type === type);
    return {
      // The keys of the table above.
      type: type as ConditionType,
      ...verdict,
      message: verdict.message.slice(0, LONGEST),
      lastTransitionTime: known?.status === verdict.status ? known.lastTransitionTime : now,
      ...(report.generation === undefined ? {} : { observedGeneration: report.generation }),
    };
  });
  const computed = report.computed === undefined ? before.computed : { ...report.computed };
  return {
    ...(report.generation === undefined ? {} : { observedGeneration: report.generation }),
    release: report.release,
    summary: summaryOf(verdicts),
    conditions,
    components: report.components,
    warnings: [...report.warnings, ...(report.reported?.warnings ?? [])],
    ...(report.fanOut === undefined ? {} : { typha: report.fanOut }),
    ...(computed === undefined ? {} : { computed }),
  };
}

/** Reports whether a status says the same as the stored one. */
export function isSameStatus(before: InstallationStatus, after: InstallationStatus): boolean {
  return isDeepStrictEqual(plain(before), plain(after));
}

function plain(status: InstallationStatus): unknown {
  return JSON.parse(JSON.stringify(status));
}

function availability({ isServing, components, problems, removing, reported }: InstallationReport): Verdict {
  const uncallable = reported?.uncallable ?? [];
  if (removing !== undefined) return { status: 'False', reason: 'Removing', message: removing };
  if (isServing === undefined) return unknownOf(components);
  if (isServing && uncallable.length > 0)
    return { status: 'False', reason: 'PluginUnusable', message: uncallable.join('; ') };
  if (isServing) return { status: 'True', reason: 'Serving', message: 'Every component serves' };
  const message = messages(components, ['Failing', 'Progressing']) ?? problems[0]?.message ?? 'No component runs yet';
  return { status: 'False', reason: problems[0]?.reason ?? 'NotServing', message };
}

function progress({ components, problems, removing }: InstallationReport): Verdict {
  if (removing !== undefined) return { status: 'True', reason: 'Removing', message: removing };
  const waits = messages(components, ['Progressing', 'Failing']);
  if (waits !== undefined) return { status: 'True', reason: 'RollingOut', message: waits };
  if (components.some(({ state }) => state === 'Unknown')) return unknownOf(components);
  if (problems[0] !== undefined)
    return { status: 'False', reason: problems[0].reason, message: 'The change is refused: see Degraded' };
  return { status: 'False', reason: 'AsConfigured', message: 'Every component is as configured' };
}

function degradation({ components, problems, reported }: InstallationReport): Verdict {
  const [first] = problems;
  if (first !== undefined) {
    return { status: 'True', reason: first.reason, message: problems.map(({ message }) => message).join('; ') };
  }
  const failing = messages(components, ['Failing']);
  if (failing !== undefined) return { status: 'True', reason: 'ComponentFailing', message: failing };
  if (reported !== undefined && reported.errors.length > 0)
    return { status: 'True', reason: 'NodesFailing', message: reported.errors.join('; ') };
  if (components.some(({ state }) => state === 'Unknown')) return unknownOf(components);
  return { status: 'False', reason: 'AsExpected', message: 'Nothing fails' };
}

function unknownOf(components: readonly InstallationComponent[]): Verdict {
  return { status: 'Unknown', reason: 'CannotRead', message: messages(components, ['Unknown']) ?? 'Not read yet' };
}

function messages(
  components: readonly InstallationComponent[],
  states: readonly InstallationComponent['state'][],
): string | undefined {
  const found = states.flatMap((state) => components.filter((component) => component.state === state));
  if (found.length === 0) return undefined;
  return found.map(({ name, message = 'is not ready' }) => `${name}: ${message}`).join('; ');
}

function summaryOf({ Available, Progressing, Degraded }: Readonly<Record<ConditionType, Verdict>>): string {
  if (Degraded.status === 'True') return Degraded.message;
  if (Progressing.status === 'True') return Progressing.message;
  return [Available, Progressing, Degraded].find(({ status }) => status === 'Unknown')?.message ?? Available.message;
}
