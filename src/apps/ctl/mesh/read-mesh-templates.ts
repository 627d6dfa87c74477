import { isNetplugError } from '../../../base/errors.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { findTemplate } from '../../../mesh/injection-template.ts';
import { readControlPlanes } from '../upgrade/read-mesh.ts';
import { planeOf, readInjector } from './read-mesh-state.ts';

/** The template of netplug in a control plane of the mesh. */
export interface MeshTemplate {
  readonly namespace: string;
  /** Name of the ConfigMap. */
  readonly name: string;
  readonly text: string;
}

/**
 * Reads the templates from which the control planes of all namespaces and revisions inject the sidecar. One without the template
 * injects none. @throws mesh/config-unreadable unless those that cannot be parsed are left out, store/*
 */
export async function readMeshTemplates(
  api: OrchApi,
  { ifUnreadable }: { readonly ifUnreadable: 'throw' | 'omit' },
  signal: AbortSignal,
): Promise<readonly MeshTemplate[]> {
  const planes = await readControlPlanes(api, signal);
  const found = await Promise.all(
    planes.map(planeOf).map(async (place): Promise<readonly MeshTemplate[]> => {
      const { injector: name, config } = await readInjector(api, place, signal);
      try {
        const text = config === undefined ? undefined : findTemplate(config);
        return text === undefined ? [] : [{ namespace: place.namespace, name, text }];
      } catch (cause) {
        if (ifUnreadable === 'throw' || !isNetplugError(cause, 'mesh/config-unreadable')) throw cause;
        return [];
      }
    }),
  );
  return found.flat();
}
