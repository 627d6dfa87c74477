// Runs the soak (test/soak-cases.ts): all of it, the cases whose names contain one of the arguments, or with `--until SECONDS`,
// seconds since 1970, a share that ends about then: of the cases that have been seen to pass those that have not run for longest,
// by a record beside the components. A case that fails runs once more, alone.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { HAVE_PASSED, SOAK_CASES, type SoakCase } from '../test/soak-cases.ts';
import { cacheFolder, kubernetesPath, type ProgramName, programPath } from '../test/support/components.ts';
import { expectedMinutes, orderByDue, runsForAll, type SoakRecord } from './test/choose-cases.ts';
import { TestRun } from './test/run.ts';

const MINUTE = 60_000;
/** A case that takes so many times longer than expected hangs, and is ended. */
const HANGS = 3;
/** Minutes to build a release of Kubernetes. */
const KUBERNETES_BUILD = 15;
/** Minutes to build what a case names, and a program by which it is seen to be there. */
const BUILDS: Readonly<Record<string, { readonly program: ProgramName; readonly minutes: number }>> = {
  soak: { program: 'e2e.test', minutes: 6 },
  images: { program: 'cosign', minutes: 6 },
  mesh: { program: 'pilot-discovery', minutes: 6 },
};
/** How long after the end of a share a failed case may still be repeated. */
const OVERTIME = 15;
const RECORD = join(cacheFolder(), 'soak.json');
const EXTENT = { NETPLUG_TESTS: 'soak' };

const { values, positionals } = parseArgs({ allowPositionals: true, options: { until: { type: 'string' } } });
const endMs = values.until === undefined ? Infinity : Number(values.until) * 1000;
const named = SOAK_CASES.filter(
  ({ name }) => positionals.length === 0 || positionals.some((each) => name.includes(each)),
);
// A share decides over other people's changes: what has never been seen to pass would refuse sound ones.
const chosen = endMs === Infinity ? named : named.filter(({ name }) => HAVE_PASSED.has(name));
const record = readRecord();
const left = (): number => (endMs - Date.now()) / MINUTE;
const run = new TestRun();
const notRun: string[] = [];

say(plan());
for (const each of orderByDue(chosen, record, commit())) {
  if (minutesOf(each) > left()) notRun.push(each.name);
  else await runCase(each);
}
const unseen = named.filter((each) => !chosen.includes(each)).map(({ name }) => name);
if (unseen.length > 0) say(`soak: not in a share, because they have never been seen to pass: ${unseen.join('; ')}`);
if (notRun.length > 0) say(`soak: not here, because the time of this run is over: ${notRun.join('; ')}`);
run.close();

/** With the time to build what is not there yet. */
function minutesOf(each: SoakCase): number {
  const { kubernetes, components = [] } = each;
  const isBuilt = kubernetes === undefined || existsSync(kubernetesPath('kubelet', kubernetes));
  const builds = components.map((name) => BUILDS[name]).filter((build) => build !== undefined);
  const missing = builds.filter(({ program }) => !existsSync(programPath(program)));
  const minutes = missing.reduce((sum, build) => sum + build.minutes, isBuilt ? 0 : KUBERNETES_BUILD);
  return expectedMinutes(each, record) + minutes;
}

function plan(): string {
  const minutes = Math.round(chosen.reduce((sum, each) => sum + expectedMinutes(each, record), 0));
  const all = `soak: ${String(chosen.length)} cases of ${String(minutes)} minutes`;
  if (endMs === Infinity) return all;
  const share = Math.max(0, left());
  return `${all}; ${share.toFixed(0)} minutes in this run; every case has run in ${String(runsForAll(chosen, record, share))} such runs`;
}

async function runCase(each: SoakCase): Promise<void> {
  const startMs = Date.now();
  say(`soak: ${each.name}`);
  if (!(await build(each))) return run.fail(`soak, ${each.name}: its components or targets cannot be built`);
  const longestMs = HANGS * Math.max(expectedMinutes(each, record), 5) * MINUTE;
  const options = { env: { ...EXTENT, ...each.env }, longestMs };
  let failures = await run.vitest(each.args, options);
  if (failures.length > 0 && left() + OVERTIME > expectedMinutes(each, record)) {
    say(`soak: again, alone: ${each.name}`);
    const first = failures;
    failures = await run.vitest(each.args, options);
    if (failures.length === 0) run.noteUnstable(first);
  }
  run.fail(...failures.map(({ text }) => `soak, ${each.name}: ${text}`));
  if (failures.length === 0) keep(each.name, (Date.now() - startMs) / MINUTE);
}

async function build({ kubernetes, components = ['test'], targets = [] }: SoakCase): Promise<boolean> {
  const needs: (readonly [string, readonly string[], Readonly<Record<string, string>>])[] = [
    ['node', ['scripts/build-components.ts', ...components], {}],
    ...(kubernetes === undefined
      ? []
      : [['node', ['scripts/build-components.ts', 'test'], { KUBERNETES: kubernetes }] as const]),
    ...targets.map((target) => ['make', [target], {}] as const),
  ];
  for (const [file, args, env] of needs)
    if ((await run.part(`${file} ${args.join(' ')}`, file, args, { env })) !== 0) return false;
  return true;
}

function commit(): string {
  return spawnSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8' }).stdout.trim();
}

function readRecord(): Record<string, { readonly at: string; readonly minutes: number }> {
  try {
    return JSON.parse(readFileSync(RECORD, 'utf8')) as SoakRecord;
  } catch {
    return {};
  }
}

function keep(name: string, minutes: number): void {
  record[name] = { at: new Date().toISOString(), minutes: Math.ceil(minutes * 10) / 10 };
  writeFileSync(RECORD, JSON.stringify(record, undefined, 2));
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}
