import type { Output } from '../common-options.ts';
import { hasErrors } from '../../../checks/check.ts';
import type { Context, Status } from '../ports.ts';
import { renderTable } from '../table.ts';
import { type Diagnosis, examineAll, type LeftOut } from './examine.ts';
import { allFindings, renderDoctor } from './render-doctor.ts';
import { openSources, type Places } from './sources.ts';
import type { Scope, Topic } from './topic.ts';
import { whyNotNode } from './why-not-node.ts';
import { TOPICS, UNEXAMINED, unexaminedId } from './topics.ts';

export interface DoctorOptions {
  /** Undefined examines the cluster, and also the node when the caller may examine it. */
  readonly scope: Scope | undefined;
  readonly confDir: string | undefined;
  readonly binDir: string | undefined;
  readonly socket: string | undefined;
  readonly health: string | undefined;
}

const HEALTH = '127.0.0.1:9098';

/** Prints a diagnosis. Changes nothing. Returns status 1 when there is an error. */
export async function doctor(context: Context, options: DoctorOptions & { readonly output: Output }): Promise<Status> {
  const { io } = context;
  const diagnosis = await diagnose(context, options);
  io.stdout(
    options.output === 'json'
      ? `${JSON.stringify(diagnosisDocument(diagnosis), undefined, 2)}\n`
      : renderDoctor(diagnosis, io.screen),
  );
  return hasErrors(allFindings(diagnosis)) ? 1 : 0;
}

/** Prints every check without running it. */
export function listChecks({ io }: Context, output: Output): Status {
  const checks = TOPICS.flatMap(({ area, scope, checks }) =>
    [...checks, { id: unexaminedId(area), ...UNEXAMINED }].map(({ id, severity, expected }) => ({
      id,
      severity,
      scope,
      expected,
    })),
  );
  const rows = checks.map(({ id, severity, scope, expected }) => [id, severity, scope, expected]);
  io.stdout(
    output === 'json'
      ? `${JSON.stringify(checks, undefined, 2)}\n`
      : renderTable(['ID', 'SEVERITY', 'SCOPE', 'EXPECTED'], rows),
  );
  return 0;
}

export async function diagnose(context: Context, options: DoctorOptions): Promise<Diagnosis> {
  const places = placesOf(context, options);
  const whyNoNode = options.scope === 'cluster' ? 'only the cluster was asked for' : await whyNotNode(context, places);
  const includesNode = options.scope === 'node' || whyNoNode === undefined;
  const isAsked = ({ scope }: Topic): boolean => (scope === 'node' ? includesNode : options.scope !== 'node');
  await using scope = new AsyncDisposableStack();
  const { examined, leftOut } = await examineAll(
    TOPICS.filter(isAsked),
    openSources(context, { places, includesNode }, scope),
  );
  const unasked = TOPICS.filter((topic) => !isAsked(topic)).map(({ area, scope }): LeftOut => ({
    area,
    why: scope === 'node' ? (whyNoNode ?? '') : 'only the node was asked for',
  }));
  return { examined, leftOut: [...unasked, ...leftOut] };
}

export function placesOf({ env, ports }: Context, { confDir, binDir, socket, health }: DoctorOptions): Places {
  const path = (env['CNI_PATH'] ?? '').split(':').filter((folder) => folder !== '');
  return {
    confDir: confDir ?? ports.plugin.confDir,
    binDirs: binDir === undefined ? (path.length === 0 ? [ports.plugin.binDir] : path) : [binDir],
    socket: socket ?? ports.machine.socketPath,
    health: health ?? HEALTH,
  };
}

/** Returns the diagnosis as JSON output. */
export function diagnosisDocument(diagnosis: Diagnosis): object {
  const findings = allFindings(diagnosis);
  const count = (wanted: string): number => findings.filter(({ severity }) => severity === wanted).length;
  return {
    counts: { error: count('error'), warning: count('warning'), note: count('note') },
    findings: findings.map((finding) => ({ area: finding.id.split('/')[0], ...finding })),
    areas: diagnosis.examined.map(({ area, measured }) => ({ area, measured })),
    leftOut: diagnosis.leftOut,
  };
}
