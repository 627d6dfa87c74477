// Every case of cyclonus, which generates network policies and compares who reaches whom with what its own model expects.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { partOf } from '../runs.ts';
import type { Cluster } from '../support/cluster.ts';
import { startClusterDns } from '../support/cluster-dns.ts';
import { program } from '../support/components.ts';
import { makeImage } from '../support/image.ts';
import { removeAtEnd } from '../support/janitor.ts';
import { startRoutedCluster } from '../support/routed-cluster.ts';
import { hasSctp } from '../support/sctp.ts';

const CASES = 230;
/** Of the image it makes pods from, with the worker that asks for many connections at once. */
const IMAGE = ['docker.io/mfenwick100/cyclonus-worker:latest'];
const POOLS = {
  'default-ipv4': { cidr: '10.83.0.0/16', vxlanMode: 'Always', natOutgoing: true },
  'default-ipv6': { cidr: 'fd00:83::/64', vxlanMode: 'Always', natOutgoing: true },
};
/** Numbers of the cases of this run. */
const ONLY = (
  process.env['NETPLUG_CYCLONUS_CASES'] ?? partOf(Array.from({ length: CASES }, (_, index) => index + 1)).join()
).split(',');
const SHOWN = 30_000;

/** A line of what test/components/cyclonus/main.go writes. */
interface Outcome {
  readonly number: number;
  readonly description: string;
  readonly tags: readonly string[];
  readonly passed: boolean;
  /** Of each step. */
  readonly wrong: readonly (readonly string[])[];
}

/** Of test/cyclonus.json. */
interface Difference {
  readonly number: number;
  readonly why: string;
}

describe('the cases of cyclonus', () => {
  let dir: string;
  let cluster: Cluster;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'netplug-cyclonus-'));
    removeAtEnd('folder', dir);
    const files = { '/agnhost': program('agnhost'), '/worker': program('cyclonus-worker') };
    const image = await makeImage(join(dir, 'image'), { names: IMAGE, config: { Entrypoint: ['/agnhost'] }, files });
    cluster = await startRoutedCluster({ images: [image], pools: POOLS });
    await startClusterDns(cluster);
  }, 240_000);
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]();
    await rm(dir, { recursive: true, force: true });
  });

  it('have the expected answers, but for the differences in test/cyclonus.json', async () => {
    const { api, control } = cluster;
    const results = join(api.dir, 'cyclonus.jsonl');
    const protocols = ['TCP', 'UDP', ...((await hasSctp()) ? ['SCTP'] : [])];
    const command = [
      program('cyclonus'),
      `-results=${results}`,
      `-protocols=${protocols.join(',')}`,
      `-only=${ONLY.join()}`,
    ];
    const env = { HOME: api.dir, KUBECONFIG: api.kubeconfig };
    const { status, stdout, stderr } = await control.run(command, { env });
    if (status !== 0)
      throw new Error(`cyclonus ended with ${String(status)}:\n${stdout.slice(-SHOWN)}${stderr.slice(-SHOWN)}`);
    process.stdout.write(stdout.slice(stdout.lastIndexOf('SummaryTable:')));
    const outcomes = (await readFile(results, 'utf8'))
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Outcome);
    expect(outcomes).toHaveLength(ONLY.length);
    const known: readonly Difference[] = JSON.parse(
      await readFile(join(import.meta.dirname, '../cyclonus.json'), 'utf8'),
    );
    const isKnown = new Set(known.map(({ number }) => number));
    expect(outcomes.filter(({ passed, number }) => !passed && !isKnown.has(number))).toEqual([]);
    // A difference that is gone is to be removed from the list.
    expect(outcomes.filter(({ passed, number }) => passed && isKnown.has(number))).toEqual([]);
  }, 18_000_000);
});
