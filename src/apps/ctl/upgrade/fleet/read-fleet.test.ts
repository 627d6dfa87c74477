import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callCtl, machineIn, type Ran } from '../../../../../test/support/ctl.ts';
import type { Context } from '../../ports.ts';
import { applyFleet } from './apply-fleet.ts';
import { decodeFleet, readFleet } from './read-fleet.ts';

const EXAMPLE = resolve(import.meta.dirname, '../../../../../examples/fleet.yaml');

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-fleet-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

async function fleet(action: string, text: string, ...more: readonly string[]): Promise<Ran> {
  const file = join(folder, 'fleet.yaml');
  await writeFile(file, text);
  return callCtl(['upgrade', 'fleet', action, '-f', file, ...more], { machine: machineIn(folder) });
}

describe('the file of a fleet', () => {
  it('is read as the example shows, with paths relative to its folder', async () => {
    const context = { signal: new AbortController().signal } as Context;
    const { waves } = await readFleet(context, EXAMPLE);
    expect(waves.map(({ name, atOnce, clusters }) => [name, atOnce, clusters.map((each) => each.name)])).toEqual([
      ['pilot', 4, ['test']],
      ['production', 2, ['north', 'south', 'west']],
    ]);
    const [north, south, west] = waves[1]?.clusters ?? [];
    const at = (name: string): string => resolve(EXAMPLE, '..', name);
    expect(north).toMatchObject({ kubeconfig: at('north.kubeconfig'), accept: ['nodes/cordoned'], proof: 'run' });
    expect(south).toMatchObject({ context: 'admin@south', config: at('south-etcd.yaml') });
    expect(west).toMatchObject({ method: 'operator', registry: 'registry.west.example/netplug', proof: 'skip' });
  });

  it.each<[string, unknown, string]>([
    ['no waves', {}, 'waves: missing; needed is an array of waves'],
    ['an empty wave', { waves: [{ clusters: [] }] }, 'waves[0].clusters: found [] (array), allowed is at least one'],
    ['a cluster without access', { waves: [{ clusters: [{ name: 'a' }] }] }, 'waves[0].clusters[0]: names no cluster'],
    [
      'a cluster twice',
      { waves: [{ clusters: [{ context: 'a' }] }, { clusters: [{ context: 'a' }] }] },
      'waves[1].clusters[0].name: is the name of a cluster before: "a"',
    ],
    [
      'a misspelled key',
      { waves: [{ clusters: [{ contxt: 'a' }] }] },
      'waves[0].clusters[0].contxt: is not a key of a fleet (did you mean "context"?)',
    ],
    [
      'an unknown check',
      { waves: [{ clusters: [{ context: 'a', accept: ['nodes/none'] }] }] },
      'waves[0].clusters[0].accept[0]: found "nodes/none" (string), allowed is the id of a check',
    ],
    ['an unknown method', { waves: [{ clusters: [{ context: 'a', method: 'oprator' }] }] }, 'did you mean "operator"?'],
    ['a cluster that is a text', { waves: [{ clusters: ['a'] }] }, 'waves[0].clusters[0]: found "a" (string)'],
    ['no clusters at once', { waves: [{ atOnce: 0, clusters: [{ context: 'a' }] }] }, 'allowed is 1 or more'],
  ])('is refused with %s, with path and remedy', async (_, value, problem) => {
    const { status, err } = await fleet('plan', JSON.stringify(value));
    expect(status).toBe(64);
    expect(err).toContain(problem);
  });

  it('names each problem in one message', () => {
    const read = decodeFleet({ waves: [{ name: 1, clusters: [{}, { context: 'a', with: 'all' }] }] });
    expect('problems' in read ? read.problems.map(({ path }) => path) : []).toEqual([
      'waves[0].name',
      'waves[0].clusters[1].with',
      'waves[0].clusters[0]',
    ]);
  });
});

describe('netplugctl upgrade fleet', () => {
  const ONE = JSON.stringify({ waves: [{ name: 'pilot', clusters: [{ kubeconfig: 'nowhere.kubeconfig' }] }] });

  it('refuses an option of apply with another action', async () => {
    const { status, err } = await fleet('plan', ONE, '--yes');
    expect({ status, err }).toMatchObject({
      status: 64,
      err: expect.stringContaining('Cannot use --yes with "plan"') as string,
    });
  });

  it.each(['0', '604801', '9999999', '1.5', '99999999999999999999'])('refuses %s s for a cluster', async (seconds) => {
    for (const action of ['plan', 'preflight', 'apply']) {
      const { status, err } = await fleet(action, ONE, '--cluster-timeout', seconds);
      expect(status).toBe(64);
      expect(err).toContain(`--cluster-timeout`);
      expect(err).toContain('from 1 to 604800');
    }
  });

  it('waits for the answer of the person longer than for a cluster', async () => {
    const file = join(folder, 'fleet.yaml');
    await writeFile(file, ONE);
    const never = new AbortController().signal;
    const asked: AbortSignal[] = [];
    const stdin = async (signal: AbortSignal): Promise<string> => {
      asked.push(signal);
      return Promise.resolve('no');
    };
    const io = { stdin, stderr: () => undefined, stdout: () => undefined, isTty: true };
    const context = { io, env: {}, signal: AbortSignal.timeout(1), stopped: never } as unknown as Context;
    const options = { file, through: undefined, clusterTimeout: 1, mode: 'ask', output: 'table' } as const;
    expect(await applyFleet(context, options)).toBe(1);
    expect(asked).toEqual([never]);
  });

  it('refuses a wave that the file does not have', async () => {
    const { status, err } = await fleet('apply', ONE, '--yes', '--through', 'second');
    expect(status).toBe(64);
    expect(err).toContain('has no such wave');
    expect(err).toContain('It has "pilot"');
  });

  it('shows a cluster that cannot be read with the reason, and changes nothing', async () => {
    const { status, out } = await fleet('preflight', ONE, '-o', 'json');
    expect(status).toBe(1);
    expect(JSON.parse(out)).toMatchObject({
      refused: true,
      clusters: [
        { wave: 'pilot', cluster: 'nowhere.kubeconfig', state: 'unreadable', reason: expect.any(String) as string },
      ],
    });
    const applied = await fleet('apply', ONE, '--yes');
    expect(applied).toMatchObject({ status: 1 });
    expect(applied.out).toContain('0 of 1 cluster at v3.27.0');
    expect(applied.err).toContain('wave pilot: does not begin');
  });
});
