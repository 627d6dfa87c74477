// What checks of a service mesh know of a mesh that has everything, and of one that lacks something.
import type { FilterFacts, InjectorFacts, MeshFacts } from '../../src/checks/mesh-checks.ts';

const FILTER: FilterFacts = { namespace: 'istio-system', name: 'netplug', asks: true, state: 'current' };

export const SOUND_MESH: MeshFacts = {
  asking: ['shop'],
  injectors: [{ namespace: 'istio-system', name: 'istio-sidecar-injector', template: { kind: 'current' } }],
  filters: [FILTER],
  roots: ['istio-system'],
  ambient: [],
};

const template = (state: InjectorFacts['template']): MeshFacts => ({
  ...SOUND_MESH,
  injectors: SOUND_MESH.injectors.map((each) => ({ ...each, template: state })),
});

/** A mesh in which exactly one check finds something, by the id of the check. */
export const BROKEN_MESHES: Readonly<Record<string, MeshFacts>> = {
  'mesh/template-missing': template({ kind: 'missing' }),
  'mesh/template-older': template({ kind: 'older', release: 'v3.20.0' }),
  'mesh/template-newer': template({ kind: 'newer', release: 'v3.99.0' }),
  'mesh/template-overwritten': template({ kind: 'other' }),
  'mesh/template-unreadable': template({ kind: 'unreadable', why: 'it is no YAML' }),
  'mesh/filter-missing': { ...SOUND_MESH, filters: [] },
  'mesh/filter-changed': { ...SOUND_MESH, filters: [{ ...FILTER, state: 'changed' }] },
  'mesh/filter-fails-open': { ...SOUND_MESH, filters: [{ ...FILTER, state: 'fails-open' }] },
  'mesh/ambient-namespace': { ...SOUND_MESH, ambient: ['apps'] },
};
