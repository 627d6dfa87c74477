import { KUBECONFIG_NAME, LOG_FILE, NODE_NAME_PLACEHOLDER } from '../places.ts';
import { renderConflist } from '../render-conflist.ts';
import { KV_FILES } from './agent-daemon-set.ts';
import { FIELD_ROWS, rendered } from './fields.ts';
import { renderIpam } from './ipam-section.ts';
import type { ClusterSettings } from './settings.ts';
import { valueAt } from './spec-path.ts';

const NETWORK_NAME = 'k8s-pod-network';

/** Returns the conflist that the agent installs on each node. */
export function conflistOf(settings: ClusterSettings): object {
  const { spec, families } = settings;
  return renderConflist({
    name: NETWORK_NAME,
    datastore: datastoreOf(settings),
    orchAccess: { by: 'file', path: `${spec.cni.confDir}/${KUBECONFIG_NAME}` },
    ipam: renderIpam({ type: spec.cni.ipam.type, families }),
    logFilePath: LOG_FILE,
    further: { nodename: NODE_NAME_PLACEHOLDER, ...rendered(spec, 'key') },
    chained: FIELD_ROWS.flatMap(([path, { chained }]) =>
      chained !== undefined && valueAt(spec, path) === 'Enabled' ? [chained] : [],
    ),
    furtherPlugins: spec.cni.chainedPlugins,
  });
}

function datastoreOf({ datastore }: ClusterSettings): Parameters<typeof renderConflist>[0]['datastore'] {
  if (datastore.type === 'orch') {
    return { type: 'orch', orch: { orchconfig: undefined, apiRoot: undefined, nodeName: undefined } };
  }
  const isTls = datastore.tls === 'secret';
  return {
    type: 'kvv3',
    connection: {
      endpoints: { from: 'list', urls: datastore.endpoints.split(',') },
      keyFile: isTls ? KV_FILES.key : undefined,
      certFile: isTls ? KV_FILES.cert : undefined,
      caCertFile: isTls ? KV_FILES.ca : undefined,
    },
  };
}
