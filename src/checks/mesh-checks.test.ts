import { describe, expect, it } from 'vitest';
import { expectEachCheck } from '../../test/support/checks.ts';
import { BROKEN_MESHES, SOUND_MESH } from '../../test/support/mesh-facts.ts';
import { type Finding, judgeAll } from './check.ts';
import { MESH_CHECKS, type MeshFacts } from './mesh-checks.ts';

const find = (change: Partial<MeshFacts>): readonly Finding[] =>
  judgeAll(MESH_CHECKS, { meshState: { ...SOUND_MESH, ...change } });

describe('checks of a service mesh', () => {
  expectEachCheck<{ readonly meshState?: MeshFacts | undefined }>(
    MESH_CHECKS,
    { meshState: SOUND_MESH },
    Object.fromEntries(
      Object.entries(BROKEN_MESHES).map(([id, meshState]) => [id.replace('mesh/', ''), { meshState }]),
    ),
  );

  it('are silent where nothing uses the sidecar, and say once that it cannot be read', () => {
    expect(judgeAll(MESH_CHECKS, { meshState: undefined })).toEqual([]);
    const unread = [{ fact: 'mesh', why: 'forbidden' }];
    expect(judgeAll(MESH_CHECKS, { meshState: undefined }, unread)).toMatchObject([
      { id: 'mesh/template-missing', found: 'not known: mesh could not be read (forbidden)' },
    ]);
  });

  it.each<[string, Partial<MeshFacts>]>([
    ['in its own namespace', { filters: [{ namespace: 'shop', name: 'own', asks: true, state: 'foreign' }] }],
    [
      'in a root namespace that is not that of the control plane',
      {
        roots: ['istio-config'],
        filters: [{ namespace: 'istio-config', name: 'netplug', asks: true, state: 'current' }],
      },
    ],
    ['where no control plane tells the root namespace', { filters: [], injectors: [], roots: [] }],
    ['whose kind the API does not serve', { filters: undefined }],
  ])('say nothing of a filter %s', (_, change) => {
    expect(find(change)).toEqual([]);
  });

  it('name the namespaces that a filter does not reach', () => {
    const [found] = find({
      asking: ['apps', 'shop'],
      filters: [{ namespace: 'shop', name: 'netplug', asks: true, state: 'current' }],
    });
    expect(found).toMatchObject({ id: 'mesh/filter-missing', objects: ['Namespace apps'] });
  });

  it('do not count a filter of its name that asks nothing', () => {
    const filters = [{ namespace: 'istio-system', name: 'netplug', asks: false, state: 'changed' as const }];
    expect(find({ filters }).map(({ id }) => id)).toEqual(['mesh/filter-missing', 'mesh/filter-changed']);
  });

  it('do not have a template of a later release overwritten', () => {
    const [newer] = find(BROKEN_MESHES['mesh/template-newer'] ?? {});
    expect(newer).toMatchObject({ id: 'mesh/template-newer', remedy: 'Use netplugctl of v3.99.0, or a later one' });
  });

  it('have a filter overwritten in a root namespace only', () => {
    const remedyFor = (namespace: string, state: 'changed' | 'fails-open'): string | undefined => {
      const own = { namespace, name: 'netplug', asks: true, state };
      return find({ filters: [...(SOUND_MESH.filters ?? []), own] })[0]?.remedy;
    };
    expect(remedyFor('istio-system', 'changed')).toContain('kubectl apply');
    expect(remedyFor('shop', 'changed')).toMatch(/give it another name .*"kubectl delete envoyfilter netplug -n shop"/);
    expect(remedyFor('shop', 'changed')).not.toContain('apply');
    expect(remedyFor('shop', 'fails-open')).toBe('Remove failure_mode_allow from it');
  });

  it('name the control plane in the commands', () => {
    const [found] = find({
      injectors: [
        { namespace: 'mesh', revision: 'canary', name: 'istio-sidecar-injector-canary', template: { kind: 'missing' } },
      ],
    });
    expect(found?.remedy).toContain('"netplugctl mesh values --mesh-namespace mesh --revision canary"');
    const [missing] = find({ filters: [], roots: ['mesh'] });
    expect(missing?.remedy).toContain('netplugctl mesh objects --mesh-namespace mesh |');
  });
});
