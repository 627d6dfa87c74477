import type { ResourceStore } from '../../datastore/resource-store.ts';
import { writeFileAtomically } from '../../base/atomic-file.ts';
import { isNetplugError } from '../../base/errors.ts';
import { API_VERSION } from '../../model/resource.ts';
import type { NodeName } from '../../model/names.ts';

/** Writes the node's name to the file that the plugin checks: `nodename` in the state folder. @throws the file system's error */
export async function registerName(path: string, node: NodeName): Promise<void> {
  await writeFileAtomically(path, { text: `${node}\n`, mode: 0o644 });
}

/** Creates the Node resource unless it exists. @throws store/* */
export async function registerNode(store: ResourceStore, node: NodeName, signal: AbortSignal): Promise<void> {
  if ((await store.findResource({ kind: 'Node', name: node }, signal)) !== undefined) return;
  try {
    await store.createResource({ apiVersion: API_VERSION, kind: 'Node', metadata: { name: node }, spec: {} }, signal);
  } catch (cause) {
    if (!isNetplugError(cause, 'resource/exists')) throw cause;
  }
}
