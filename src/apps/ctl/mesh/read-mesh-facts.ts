import { type InjectorFacts, type MeshFacts } from '../../../checks/mesh-checks.ts';
import { findObject } from '../../../kube/objects/apply.ts';
import { referenceTo } from '../../../kube/objects/reference.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { NAMESPACES, PODS } from '../../../kube/paths.ts';
import { asksSidecar, compareFilter } from '../../../mesh/compare-filter.ts';
import { compareTemplate } from '../../../mesh/compare-template.ts';
import { FILTER_NAME } from '../../../mesh/envoy-filter.ts';
import { recordIn, textIn } from '../../../upgrade/cluster/objects-in.ts';
import { meshVersion, readControlPlanes } from '../upgrade/read-mesh.ts';
import { listFilters, SIDECAR_SELECTOR } from './find-mesh-remains.ts';
import {
  type MeshPlace,
  planeOf,
  readInjector,
  readMeshControl,
  type SidecarImage,
  sidecarImage,
} from './read-mesh-state.ts';

const AMBIENT = 'istio.io/dataplane-mode=ambient';

/**
 * Reads what the mesh has for pods with a sidecar. Returns undefined where no mesh is installed, and where no pod has a sidecar unless
 * it is asked what pods to come will find. @throws store/*
 */
export async function readMeshFacts(
  api: OrchApi,
  { ifUnused }: { readonly ifUnused: 'omit' | 'read' },
  signal: AbortSignal,
): Promise<MeshFacts | undefined> {
  const pods = await api.list(PODS, { labelSelector: SIDECAR_SELECTOR, only: 'names' }, signal);
  if (pods.length === 0 && ifUnused === 'omit') return undefined;
  const planes = await readControlPlanes(api, signal);
  const facts = await readFacts(api, planes.map(planeOf), signal);
  const injectors = await readInjectors(api, planes, signal);
  const asking = [...new Set(pods.map(({ metadata: { namespace = '' } }) => namespace))].toSorted();
  return planes.length === 0 && facts.filters === undefined ? undefined : { ...facts, asking, injectors };
}

/** Reads the same of one control plane, whether or not pods have a sidecar. @throws mesh/missing, store/* */
export async function readMeshFactsOf(api: OrchApi, place: MeshPlace, signal: AbortSignal): Promise<MeshFacts> {
  const { version, config, injector: name } = await readMeshControl(api, place, signal);
  const template = compareTemplate(config, { mesh: version, ...(await sidecarImage(api, signal)) });
  const facts = await readFacts(api, [place], signal);
  return {
    ...facts,
    filters: facts.filters ?? [],
    // A filter elsewhere applies to pods of its own namespace only.
    asking: facts.roots,
    injectors: [{ ...place, name, template }],
  };
}

async function readFacts(
  api: OrchApi,
  places: readonly MeshPlace[],
  signal: AbortSignal,
): Promise<Pick<MeshFacts, 'filters' | 'roots' | 'ambient'>> {
  const [filters, ambient, ...roots] = await Promise.all([
    listFilters(api, signal),
    api.list(NAMESPACES, { labelSelector: AMBIENT, only: 'names' }, signal),
    ...places.map(async (place) => readRoot(api, place, signal)),
  ]);
  const ours = filters?.filter(({ metadata: { name }, spec }) => name === FILTER_NAME || asksSidecar(spec));
  return {
    filters: ours?.map(({ metadata: { name, namespace = '' }, spec }) => ({
      namespace,
      name,
      asks: asksSidecar(spec),
      state: compareFilter(name, spec),
    })),
    roots: [...new Set(roots)],
    ambient: ambient.map(({ metadata: { name } }) => name),
  };
}

async function readInjectors(
  api: OrchApi,
  planes: readonly ApiObject[],
  signal: AbortSignal,
): Promise<readonly InjectorFacts[]> {
  if (planes.length === 0) return [];
  const sidecar = await sidecarImage(api, signal);
  return Promise.all(planes.map(async (plane) => readInjectorFacts(api, { plane, sidecar }, signal)));
}

async function readInjectorFacts(
  api: OrchApi,
  { plane, sidecar }: { readonly plane: ApiObject; readonly sidecar: SidecarImage },
  signal: AbortSignal,
): Promise<InjectorFacts> {
  const place = planeOf(plane);
  const [mesh] = meshVersion(plane);
  const { injector: name, config } = await readInjector(api, place, signal);
  const unreadable = (why: string): InjectorFacts => ({ ...place, name, template: { kind: 'unreadable', why } });
  if (config === undefined) return unreadable('the control plane has no such ConfigMap with a configuration');
  if (mesh === undefined) return unreadable(`the image of Deployment ${plane.metadata.name} names no version`);
  return { ...place, name, template: compareTemplate(config, { mesh, ...sidecar }) };
}

/** Returns the root namespace of the mesh: that of its control plane, unless its configuration names another one. */
async function readRoot(api: OrchApi, { namespace, revision }: MeshPlace, signal: AbortSignal): Promise<string> {
  const name = revision === undefined ? 'istio' : `istio-${revision}`;
  const map = await findObject(api, referenceTo('ConfigMap', { namespace, name }), signal);
  const mesh = map === undefined ? '' : textIn(recordIn(map, 'data'), 'mesh');
  return /^rootNamespace: *["']?([a-z0-9-]+)/m.exec(mesh)?.[1] ?? namespace;
}
