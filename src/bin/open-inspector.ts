import { openKvInspector } from '../datastore/kv/kv-inspector.ts';
import type { Inspector } from '../datastore/inspector.ts';
import { openOrchInspector } from '../datastore/orch/orch-inspector.ts';
import type { Datastore } from '../config/connection.ts';
import { accessOf } from './open-orch.ts';

/** Looks at the datastore of a configuration. @throws netconf/needs-orchestrator */
export function openInspectorIn(env: NodeJS.ProcessEnv): (datastore: Datastore) => Inspector {
  return (datastore) =>
    datastore.type === 'kvv3'
      ? openKvInspector(datastore.connection)
      : openOrchInspector(accessOf(datastore.orch, env), { env });
}
