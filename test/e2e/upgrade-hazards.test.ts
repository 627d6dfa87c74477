// The preflight of the built tool finds each hazard that is seeded into a real API server, and nothing else.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { PREFLIGHT_CHECKS } from '../../src/upgrade/cluster/checks/preflight.ts';
import { inExtent } from '../runs.ts';
import { MESH_HAZARDS } from '../support/mesh-hazards.ts';
import type { Json } from '../support/node.ts';
import {
  requireBuild,
  runTool,
  startUpgradableCluster,
  type UpgradableCluster,
} from '../support/upgradable-cluster.ts';
import { HAZARDS, type Seed } from '../support/upgrade-hazards.ts';

let scope: AsyncDisposableStack;
let cluster: UpgradableCluster;
let env: Record<string, string>;

beforeAll(async () => {
  requireBuild();
  await using starting = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'netplug-hazards-'));
  starting.defer(async () => rm(folder, { recursive: true, force: true }));
  cluster = starting.use(await startUpgradableCluster({ nodes: ['node-a', 'node-b', 'node-c'] }));
  // From here on only the tests change the cluster.
  await cluster.rollout[Symbol.asyncDispose]();
  env = {
    PATH: process.env['PATH'] ?? '',
    HOME: folder,
    KUBECONFIG: cluster.server.kubeconfig,
    NETPLUG_STATE_DIR: join(folder, 'state'),
  };
  scope = starting.move();
});
afterAll(async () => scope?.disposeAsync());

async function preflight(more: Readonly<Record<string, string>> = {}): Promise<{ status: number; hazards: Json[] }> {
  const { status, stdout, stderr } = await runTool(['upgrade', 'preflight', '-o', 'json'], { ...env, ...more });
  if (stdout === '') throw new Error(stderr);
  return { status, hazards: JSON.parse(stdout).hazards };
}

const SEEDS = PREFLIGHT_CHECKS.flatMap(({ id, severity }) => {
  const hazard = HAZARDS[id];
  return hazard === undefined || 'cannot' in hazard ? [] : [{ id, severity, hazard }];
});

/** Each check has unit tests. */
const TRIED = inExtent({ everyday: SEEDS.filter((_, index) => index % 4 === 0), soak: SEEDS });

describe('the preflight of an upgrade, on a real API server', () => {
  it('has a hazard, or a reason why there is none, for every check', () => {
    expect(Object.keys(HAZARDS).sort()).toEqual(PREFLIGHT_CHECKS.map(({ id }) => id).sort());
    const cannot = Object.entries(HAZARDS).filter(([, hazard]) => 'cannot' in hazard);
    expect(cannot.map(([id]) => id)).toEqual(['server/too-old', 'admission/agent-outside-pod']);
  });

  it('finds nothing in a sound cluster', async () => {
    expect(await preflight()).toEqual({ status: 0, hazards: [] });
  });

  it.each<{ id: string; severity: string; hazard: Seed }>(TRIED)(
    'finds $id alone while its hazard is there, and nothing afterwards',
    async ({ id, severity, hazard: { evidence, seed, env: more } }) => {
      const undo = await seed(cluster);
      try {
        const { status, hazards } = await preflight(await more?.(cluster));
        expect(hazards.map((hazard) => hazard.id)).toEqual([id]);
        expect(hazards[0].objects).toContainEqual(expect.stringMatching(evidence));
        expect(hazards[0].remedy).not.toBe('');
        expect(status).toBe(severity === 'error' ? 1 : 0);
      } finally {
        await undo();
      }
      expect(await preflight()).toEqual({ status: 0, hazards: [] });
    },
    120_000,
  );
});

it('a rollback to a release without sidecars takes the filter of the mesh away after the agents, and the backup has its template', async () => {
  const mesh = MESH_HAZARDS['mesh/template-older']!;
  const undo = await mesh.seed(cluster);
  const run = async (argv: string): Promise<string> => {
    const { status, stdout, stderr } = await runTool(argv.split(' '), env);
    expect({ status, stderr }).toMatchObject({ status: 0 });
    return stdout;
  };
  try {
    const folder = join(env['HOME'] ?? '', 'backup');
    await run(`upgrade backup --to ${folder}`);
    const before = await cluster.server.get('configmap', 'istio-sidecar-injector', '-n', 'istio-system');
    await cluster.server.apply([parse(await run('mesh template'))]);
    const shown = await run(`upgrade rollback --dry-run --from ${folder}`);
    const [, after] =
      /^\d+\. Mesh\n {3}delete EnvoyFilter istio-system\/netplug, so that no proxy asks netplug\n([^]*)/m.exec(shown) ??
      [];
    expect(after).toBeDefined();
    expect(after).not.toContain('netplug-node');
    expect(shown).toContain('left: pods with netplug-sidecar in namespaces default (1)');
    expect(shown).toContain('"kubectl edit configmap istio-sidecar-injector -n istio-system"');
    const { data } = parse(await run(`mesh template --backup ${folder}`));
    expect(data.config).toBe(before.data.config);
  } finally {
    await undo();
  }
});
