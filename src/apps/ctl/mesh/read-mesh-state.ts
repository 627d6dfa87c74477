import { NetplugError } from '../../../base/errors.ts';
import { VERSION } from '../../../base/version.ts';
import { AGENT_SET, DEFAULT_REGISTRY, imageNames, registryIn, systemObject } from '../../../install/cluster/names.ts';
import { findObject } from '../../../kube/objects/apply.ts';
import { kindCollection, referenceTo } from '../../../kube/objects/reference.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { containersIn, listIn, podSpecIn, textIn } from '../../../upgrade/cluster/objects-in.ts';
import { CONTROL_PLANE, meshVersion } from '../upgrade/read-mesh.ts';

/** Where the mesh is installed, and which of its control planes is meant. */
export interface MeshPlace {
  readonly namespace: string;
  /** Undefined for the default one. */
  readonly revision: string | undefined;
}

export interface MeshControl {
  /** The whole version, such as `1.28.1-distroless`. */
  readonly version: string;
  /** Name of the ConfigMap of its injector, and the text of its configuration. */
  readonly injector: string;
  readonly config: string;
}

/** Reads the control plane of the mesh. @throws mesh/missing, store/* */
export async function readMeshControl(
  api: OrchApi,
  { namespace, revision }: MeshPlace,
  signal: AbortSignal,
): Promise<MeshControl> {
  const labelSelector = `app=${CONTROL_PLANE}${revision === undefined ? '' : `,istio.io/rev=${revision}`}`;
  const [discovery] = await api.list(kindCollection('Deployment', namespace), { labelSelector }, signal);
  const version = discovery === undefined ? undefined : meshVersion(discovery)[0];
  const { injector, config } = await readInjector(api, { namespace, revision }, signal);
  if (version !== undefined && config !== undefined) return { version, injector, config };
  const missing = version === undefined ? `no Deployment with the labels ${labelSelector}` : `no ConfigMap ${injector}`;
  throw new NetplugError('mesh/missing', `Cannot read the service mesh: namespace ${namespace} has ${missing}`, {
    hint: 'Name its namespace with --mesh-namespace, and one of several control planes with --revision',
  });
}

/** Returns the place of a control plane by the name of its Deployment, which has the revision as the names of its ConfigMaps do. */
export function planeOf({ metadata: { name, namespace = '' } }: ApiObject): MeshPlace {
  const [, revision] = new RegExp(`^${CONTROL_PLANE}-(.+)$`).exec(name) ?? [];
  return { namespace, revision };
}

/** Reads the ConfigMap of the injector of a control plane. `config` is undefined without one. @throws store/* */
export async function readInjector(
  api: OrchApi,
  { namespace, revision }: MeshPlace,
  signal: AbortSignal,
): Promise<Pick<MeshControl, 'injector'> & { readonly config: string | undefined }> {
  const injector = `istio-sidecar-injector${revision === undefined ? '' : `-${revision}`}`;
  const map = await findObject(api, referenceTo('ConfigMap', { namespace, name: injector }), signal);
  const data = map?.['data'];
  return {
    injector,
    config: typeof data === 'object' && data !== null && 'config' in data ? String(data.config) : undefined,
  };
}

/** Image of the sidecar, as the agents of the cluster have theirs. */
export interface SidecarImage {
  readonly image: string;
  readonly pullSecrets: readonly string[];
}

/** Returns the image of this release, from the registry that the agents use. @throws store/* */
export async function sidecarImage(api: OrchApi, signal: AbortSignal): Promise<SidecarImage> {
  const agents = await findObject(api, systemObject('DaemonSet', AGENT_SET), signal);
  const [first] = agents === undefined ? [] : containersIn(agents);
  const registry = first === undefined ? undefined : registryIn(textIn(first, 'image'));
  const secrets = agents === undefined ? [] : listIn(podSpecIn(agents), 'imagePullSecrets');
  return {
    image: imageNames(VERSION, registry ?? DEFAULT_REGISTRY).sidecar,
    pullSecrets: secrets.map((each) => textIn(each, 'name')),
  };
}
