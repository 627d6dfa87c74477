// Compares netplug through its agent, netplug alone, and Debian's ptp with host-local, in one run on this machine:
// docs/benchmarks.md.
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, release } from 'node:os';
import { CANDIDATES, type CandidateName } from './bench/candidates.ts';
import { GOALS, judge } from './bench/goals.ts';
import { renderPlot } from './bench/plot.ts';
import type { Finding } from './bench/report.ts';
import { chooseRows, list, refusal, ROWS } from './bench/rows.ts';
import { renderFigures, renderGoals, renderLatencies } from './bench/table.ts';

const FOLDER = 'bench';
const samples = Number(process.env['NETPLUG_BENCH_SAMPLES'] ?? 200);
const candidates = chooseCandidates(process.env['NETPLUG_BENCH_CANDIDATES']);

const findings: Finding[] = [];
for (const name of chooseRows(process.env['NETPLUG_BENCH_ROWS'])) {
  const startMs = performance.now();
  process.stderr.write(`${name} … `);
  try {
    const finding = await ROWS[name]?.({ samples, candidates });
    if (finding !== undefined) findings.push(finding);
  } catch (error) {
    // The other rows are worth their time all the same.
    process.exitCode = 1;
    process.stderr.write(`not measured: ${error instanceof Error ? error.stack : String(error)}\n`);
  }
  process.stderr.write(`${((performance.now() - startMs) / 1000).toFixed(0)} s\n`);
}
report(findings);

function chooseCandidates(names: string | undefined): readonly CandidateName[] {
  const chosen = list(names);
  for (const name of chosen)
    if (!CANDIDATES.some((known) => known === name)) throw new Error(refusal('candidate', name, CANDIDATES));
  return chosen.length === 0 ? CANDIDATES : CANDIDATES.filter((name) => chosen.includes(name));
}

function report(findings: readonly Finding[]): void {
  const latencies = findings.flatMap((finding) => finding.latencies ?? []);
  const figures = findings.flatMap((finding) => finding.figures ?? []);
  const plots = findings.flatMap((finding) => finding.plots ?? []);
  const goals = judge(GOALS, figures);
  const tables = [latencies.length === 0 ? [] : renderLatencies(latencies), renderFigures(figures), renderGoals(goals)];
  console.log(['', ...tables.flat()].join('\n\n'));
  mkdirSync(FOLDER, { recursive: true });
  for (const plot of plots) writeFileSync(`${FOLDER}/${plot.name}.svg`, renderPlot(plot));
  const machine = { cpus: cpus().length, model: cpus()[0]?.model, kernel: release() };
  const results = { machine, samples, latencies, figures, goals, plots };
  writeFileSync(`${FOLDER}/results.json`, `${JSON.stringify(results, undefined, 2)}\n`);
  console.log(
    `\nWritten: ${['results.json', ...plots.map(({ name }) => `${name}.svg`)].map((file) => `${FOLDER}/${file}`).join(', ')}`,
  );
}
