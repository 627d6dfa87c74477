import { basename, dirname, resolve } from 'node:path';
import * as v from 'valibot';
import { NetplugError } from '../../../../base/errors.ts';
import { didYouMean, nearMiss } from '../../../../base/near-miss.ts';
import { at, type Problem, problemsError, showFound } from '../../../../base/problem.ts';
import { isRecord, readEntries } from '../../../../model/read-schema.ts';
import { PREFLIGHT_CHECKS } from '../../../../upgrade/cluster/checks/preflight.ts';
import { UPGRADE_METHODS } from '../../../../upgrade/cluster/snapshot.ts';
import type { Fleet, FleetCluster, FleetWave } from '../../../../upgrade/fleet/fleet.ts';
import { readDocuments } from '../../documents.ts';
import { readInputs } from '../../inputs.ts';
import type { Context } from '../../ports.ts';

const CODE = 'cli/usage';
const AT_ONCE = 4;
const Text = v.optional(v.pipe(v.string('a string'), v.nonEmpty('a string that is not empty')));
const Texts = v.optional(v.array(v.string('a string'), 'an array of strings'), []);
const CHECKS = PREFLIGHT_CHECKS.map(({ id }) => id);

const FLEET_FIELDS = { waves: v.pipe(v.array(v.unknown(), 'an array of waves'), v.minLength(1, 'at least one wave')) };
const WAVE_FIELDS = {
  name: Text,
  atOnce: v.optional(
    v.pipe(v.number('a whole number'), v.integer('a whole number'), v.minValue(1, '1 or more')),
    AT_ONCE,
  ),
  clusters: v.pipe(v.array(v.unknown(), 'an array of clusters'), v.minLength(1, 'at least one cluster')),
};
const CLUSTER_FIELDS = {
  name: Text,
  kubeconfig: Text,
  context: Text,
  config: Text,
  method: v.optional(v.picklist(UPGRADE_METHODS, '"operator", "chart" or "manifest"')),
  registry: Text,
  like: Text,
  pristine: Text,
  accept: v.optional(v.array(v.picklist(CHECKS, 'the id of a check of the preflight'), 'an array of strings'), []),
  with: Texts,
  proof: v.optional(v.boolean('true or false'), true),
};
const PATHS = ['kubeconfig', 'config', 'like', 'pristine'] as const;

/** Reads the file of a fleet. Paths in it are relative to the folder of the file. @throws cli/usage */
export async function readFleet(context: Context, file: string): Promise<Fleet> {
  const [source] = await readInputs(context, { paths: [file], folders: 'flat' });
  const { documents, problems } = readDocuments(source ?? { name: file, text: '' }, CODE);
  const what = `the fleet in "${file}"`;
  if (problems.length > 0) {
    throw problemsError(
      what,
      problems.map(({ place, ...problem }) => ({ ...problem, path: place })),
      CODE,
    );
  }
  if (documents.length !== 1) {
    throw new NetplugError(
      CODE,
      `Cannot use ${what}: found ${String(documents.length)} documents, allowed is one with the key "waves"`,
      { hint: 'Write the waves with their clusters; docs/upgrade.md has an example' },
    );
  }
  const read = decodeFleet(documents[0]?.value);
  if ('problems' in read) throw problemsError(what, read.problems, CODE);
  const folder = file === '-' ? '.' : dirname(file);
  return mapClusters(read, (cluster) => ({
    ...cluster,
    ...Object.fromEntries(
      PATHS.flatMap((key) => (cluster[key] === undefined ? [] : [[key, resolve(folder, cluster[key])]])),
    ),
  }));
}

/** Decodes the value of the file, or returns every problem with its path. Pure. */
export function decodeFleet(value: unknown): Fleet | { readonly problems: readonly Problem[] } {
  const problems: Problem[] = [];
  const { waves: raw = [] } = readObject(FLEET_FIELDS, value, { path: '', problems });
  const waves = raw.map((each, index) => readWave(each, { index, problems }));
  refuseRepeated(
    waves.map(({ name }, index) => ({ name, path: at('waves', index, 'name') })),
    'a wave',
    problems,
  );
  const clusters = waves.flatMap((wave, index) =>
    wave.clusters.map((cluster, place) => ({ cluster, path: at('waves', index, 'clusters', place) })),
  );
  refuseRepeated(
    clusters.map(({ cluster: { name }, path }) => ({ name, path: at(path, 'name') })),
    'a cluster',
    problems,
  );
  for (const { cluster, path } of clusters) checkCluster(cluster, path, problems);
  return problems.length > 0 ? { problems } : { waves };
}

function readWave(
  raw: unknown,
  { index, problems }: { readonly index: number; readonly problems: Problem[] },
): FleetWave {
  const path = at('waves', index);
  const {
    name = String(index + 1),
    atOnce = AT_ONCE,
    clusters = [],
  } = readObject(WAVE_FIELDS, raw, { path, problems });
  return {
    name,
    atOnce,
    clusters: clusters.map((each, place) => readCluster(each, { path: at(path, 'clusters', place), problems })),
  };
}

interface At {
  readonly path: string;
  readonly problems: Problem[];
}

function readCluster(raw: unknown, { path, problems }: At): FleetCluster {
  const read = readObject(CLUSTER_FIELDS, raw, { path, problems });
  const { kubeconfig, context, config, method, registry, like, pristine } = read;
  return {
    name: read.name ?? context ?? (kubeconfig === undefined ? '' : basename(kubeconfig)),
    kubeconfig,
    context,
    config,
    method,
    registry,
    like,
    pristine,
    accept: read.accept ?? [],
    with: read.with ?? [],
    proof: read.proof === false ? 'skip' : 'run',
  };
}

function checkCluster({ kubeconfig, context, like, pristine }: FleetCluster, path: string, problems: Problem[]): void {
  if (kubeconfig === undefined && context === undefined)
    problems.push({ path, message: 'names no cluster; needed is kubeconfig, context or both', code: CODE });
  if (pristine !== undefined && like === undefined) {
    const message = 'is compared with "like", which is missing';
    problems.push({ path: at(path, 'pristine'), message, code: CODE });
  }
}

/** Reads the valid entries of an object. Unknown keys are refused: a misspelled one would silently do nothing. */
function readObject<const E extends v.ObjectEntries>(
  entries: E,
  raw: unknown,
  { path, problems }: At,
): ReturnType<typeof readEntries<E>>['values'] {
  if (!isRecord(raw)) {
    problems.push({ path, message: `found ${showFound(raw)}, allowed is an object`, code: CODE });
    return {};
  }
  const keys = Object.keys(entries);
  for (const key of Object.keys(raw)) {
    if (keys.includes(key)) continue;
    const meant = nearMiss(key, keys);
    const hint = meant === undefined ? `allowed are ${keys.join(', ')}` : didYouMean(meant);
    problems.push({ path: at(path, key), message: 'is not a key of a fleet', hint, code: CODE });
  }
  return readEntries(entries, raw, { path, code: CODE, problems }).values;
}

function refuseRepeated(
  names: readonly { readonly name: string; readonly path: string }[],
  what: string,
  problems: Problem[],
): void {
  for (const [index, { name, path }] of names.entries()) {
    if (name === '' || names.findIndex((each) => each.name === name) === index) continue;
    const message = `is the name of ${what} before: "${name}"`;
    problems.push({ path, message, hint: 'give each a name of its own', code: CODE });
  }
}

function mapClusters({ waves }: Fleet, change: (cluster: FleetCluster) => FleetCluster): Fleet {
  return { waves: waves.map((wave) => ({ ...wave, clusters: wave.clusters.map(change) })) };
}
