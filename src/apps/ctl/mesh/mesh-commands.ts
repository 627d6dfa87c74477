import { ROOT_NAMESPACE } from '../../../mesh/envoy-filter.ts';
import { type Command, command, value } from '../command.ts';
import { meshCheck, meshObjects, meshTemplate, meshValues } from './mesh-objects.ts';
import type { MeshPlace } from './read-mesh-state.ts';

const NAMESPACE = {
  meshNamespace: value('namespace', `where the mesh is installed (default: ${ROOT_NAMESPACE})`),
};
const ROOT = {
  meshNamespace: value('namespace', `root namespace of the mesh (default: ${ROOT_NAMESPACE})`),
};
const PLACE = {
  ...NAMESPACE,
  revision: value('revision', 'control plane of this revision; the default one unless set'),
};

interface PlaceOptions {
  readonly meshNamespace: string | undefined;
  readonly revision?: string | undefined;
}

function placeOf({ meshNamespace = ROOT_NAMESPACE, revision }: PlaceOptions): MeshPlace {
  return { namespace: meshNamespace, revision };
}

export const MESH_COMMANDS: readonly Command[] = [
  command({
    path: ['mesh', 'objects'],
    summary: 'Prints the object by which proxies of the mesh ask netplug-sidecar.',
    options: ROOT,
    details: `
An EnvoyFilter of the mesh's root namespace: rootNamespace in its configuration, by default where it is
installed. "netplugctl mesh check" names it. The filter applies to pods with the label netplug.io/sidecar=enabled,
which the injection template sets, and asks the sidecar of the pod about each request, last before the
application. Reads nothing of the cluster.`,
    examples: ['netplugctl mesh objects | kubectl apply -f -'],
    run: async (context, { options }) => Promise.resolve(meshObjects(context, placeOf(options))),
  }),
  command({
    path: ['mesh', 'values'],
    summary: 'Prints the injection template as values of the installation of the mesh.',
    options: PLACE,
    details: `
The template fits the version of the mesh that runs, and names the image of this release in the registry of
the agents. Values survive upgrades of the mesh, which overwrite its ConfigMaps. Pods ask for it by the
annotation inject.istio.io/templates: sidecar,netplug.`,
    examples: ['netplugctl mesh values > netplug-values.yaml'],
    run: async (context, { options }) => meshValues(context, placeOf(options)),
  }),
  command({
    path: ['mesh', 'template'],
    summary: 'Prints the ConfigMap of the injector of the mesh with the template of netplug-sidecar.',
    options: { ...PLACE, backup: value('folder', 'take the template of this backup', { completes: 'folder' }) },
    details: `
Reads the ConfigMap from the cluster, adds or replaces the template "netplug", and leaves every other byte
of its templates as it is. An upgrade of the mesh overwrites it: "netplugctl mesh values" lasts. With
--backup the template is what it was before an upgrade of netplug, for a rollback.`,
    examples: ['netplugctl mesh template | kubectl apply -f -', 'netplugctl mesh template --revision canary'],
    run: async (context, { options }) => meshTemplate(context, placeOf(options), options.backup),
  }),
  command({
    path: ['mesh', 'check'],
    summary: 'Checks that the mesh has template and filter of this release.',
    options: PLACE,
    details: `
Prints what is missing or of another release, with the command that mends it. The exit status is 1 then.`,
    examples: ['netplugctl mesh check'],
    run: async (context, { options }) => meshCheck(context, placeOf(options)),
  }),
];
