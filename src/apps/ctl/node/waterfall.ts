import type { ShownCall } from '../../../model/shown-call.ts';
import { visibleText } from '../../../base/visible-text.ts';
import { type Paint, painterFor, type Screen } from '../screen.ts';

type Phase = ShownCall['phases'][number];

const BAR_COLUMNS = { min: 10, max: 100 };
const PATHS = { 'warm-pool': 'from the warm pool', datastore: 'waited for the datastore' };

/** Renders calls as bars over time: a line per phase, with all parts of that phase. */
export function renderWaterfall(calls: readonly ShownCall[], screen: Screen): string {
  const paint = painterFor(screen);
  return calls
    .map((call) =>
      [paint('bold', headOf(call)), ...phaseLines(call, screen, paint), ...failureLines(call, paint)].join('\n'),
    )
    .map((text) => `${text}\n`)
    .join('\n');
}

function headOf({ startedAt, program, command, pod, containerId, ifName, totalMs, path }: ShownCall): string {
  const verb = program === 'netplug' ? (command ?? 'call') : `${command ?? 'call'} of ${program}`;
  const container = containerId === undefined || containerId === '' ? undefined : `${containerId}/${ifName ?? ''}`;
  const subject = pod === undefined || container === undefined ? (pod ?? container) : `${pod} (${container})`;
  return [startedAt, verb, subject, inMs(totalMs), path === undefined ? undefined : PATHS[path]]
    .filter((part) => part !== undefined)
    .map(visibleText)
    .join('  ');
}

function phaseLines({ phases, totalMs }: ShownCall, screen: Screen, paint: Paint): string[] {
  const rows = [...Map.groupBy(phases, ({ name }) => name)].map(([name, stretches]) => ({
    name,
    stretches,
    isFailed: stretches.some(({ isFailed }) => isFailed),
    sum: inMs(stretches.reduce((sum, { durationMs }) => sum + durationMs, 0)),
  }));
  const nameColumns = Math.max(...rows.map(({ name }) => name.length));
  const sumColumns = Math.max(...rows.map(({ sum }) => sum.length));
  // Two columns before the name, two between, one on each side of the bar, and the mark of a failure.
  const room = screen.columns - nameColumns - sumColumns - 2 - 2 - 2 - 2;
  const columns = Math.max(BAR_COLUMNS.min, Math.min(BAR_COLUMNS.max, room));
  return rows.map(({ name, stretches, isFailed, sum }) => {
    const bar = paint(isFailed ? 'red' : 'cyan', barOf(stretches, totalMs, columns));
    const frame = paint('dim', '│');
    return `  ${name.padEnd(nameColumns)} ${frame}${bar}${frame} ${sum.padStart(sumColumns)}${isFailed ? ' ✗' : ''}`;
  });
}

/** Draws every part, however short. A thin block stands for less than half of its column. */
function barOf(stretches: readonly Phase[], totalMs: number, columns: number): string {
  const perColumnMs = Math.max(totalMs, Number.EPSILON) / columns;
  const filled = Array.from({ length: columns }, () => 0);
  for (const { startMs, durationMs } of stretches) {
    const first = Math.min(columns - 1, Math.floor(startMs / perColumnMs));
    const last = Math.max(first, Math.min(columns - 1, Math.ceil((startMs + durationMs) / perColumnMs) - 1));
    for (let column = first; column <= last; column += 1) {
      const fromMs = Math.max(startMs, column * perColumnMs);
      const toMs = Math.min(startMs + durationMs, (column + 1) * perColumnMs);
      filled[column] = (filled[column] ?? 0) + Math.max((toMs - fromMs) / perColumnMs, Number.MIN_VALUE);
    }
  }
  return filled.map((share) => (share === 0 ? ' ' : share < 0.5 ? '▏' : '█')).join('');
}

function failureLines({ failure }: ShownCall, paint: Paint): string[] {
  return failure === undefined ? [] : [paint('red', `  ${visibleText(`${failure.code}: ${failure.message}`)}`)];
}

function inMs(ms: number): string {
  return `${ms.toFixed(1)} ms`;
}
