import { isNetplugError } from '../../../base/errors.ts';
import { kindCollection } from '../../../kube/objects/reference.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { readConfig, TEMPLATE_NAME } from '../../../mesh/injection-template.ts';
import { CONTROL_PLANE, planeOf, readInjector } from './read-mesh-state.ts';

/** The template of netplug in a control plane of the mesh. */
export interface MeshTemplate {
  readonly namespace: string;
  /** Name of the ConfigMap. */
  readonly name: string;
  readonly text: string;
}

/** Reads the templates of all control planes; those that cannot be parsed are left out. @throws store/* */
export async function readMeshTemplates(api: OrchApi, signal: AbortSignal): Promise<readonly MeshTemplate[]> {
  const planes = await api.list(kindCollection('Deployment'), { labelSelector: `app=${CONTROL_PLANE}` }, signal);
  const found = await Promise.all(
    planes.map(planeOf).map(async (place) => {
      const { injector: name, config } = await readInjector(api, place, signal);
      const text = config === undefined ? undefined : templateIn(config);
      return text === undefined ? [] : [{ namespace: place.namespace, name, text }];
    }),
  );
  return found.flat();
}

function templateIn(config: string): string | undefined {
  try {
    const { [TEMPLATE_NAME]: text } = readConfig(config);
    return typeof text === 'string' ? text : undefined;
  } catch (cause) {
    if (!isNetplugError(cause, 'mesh/config-unreadable')) throw cause;
    return undefined;
  }
}
