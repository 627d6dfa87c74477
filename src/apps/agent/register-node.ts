import { join } from 'node:path';
import type { ResourceStore } from '../../datastore/resource-store.ts';
import { keepFile } from '../../base/atomic-file.ts';
import { isNetplugError } from '../../base/errors.ts';
import { API_VERSION } from '../../model/resource.ts';
import type { NodeName } from '../../model/names.ts';

/** Where the plugin looks for what the agent registers. */
export interface Registry {
  readonly stateDir: string;
  /** Folder of network configurations; the runtime does not pass the agent's variable on. */
  readonly confDir: string;
}

/** Writes what the plugin reads in the state folder: `cni-conf-dir`, and `nodename` last. @throws the file system's error */
export async function registerName({ stateDir, confDir }: Registry, node: NodeName): Promise<void> {
  await keepFile(join(stateDir, 'cni-conf-dir'), { text: `${confDir}\n`, mode: 0o644 });
  await keepFile(join(stateDir, 'nodename'), { text: `${node}\n`, mode: 0o644 });
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
