import { ownValue } from '../../../base/own-value.ts';
import type { ClusterDatastore } from '../settings.ts';

interface Change {
  readonly field: string;
  readonly found: string;
  readonly remedy: string;
}

type Etcd = Extract<ClusterDatastore, { type: 'kvv3' }>;

const OR_REMOVE = 'or remove it first with: netplugctl uninstall cluster';
const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'http:': '80', 'https:': '443' };

/** Returns what would cut an installation off from its records when it is repeated with another datastore. Pure. */
export function datastoreChanges(runs: ClusterDatastore, wanted: ClusterDatastore): readonly Change[] {
  if (runs.type === 'kvv3' && wanted.type === 'kvv3') return etcdChanges(runs, wanted);
  if (runs.type === wanted.type) return [];
  return [
    {
      field: '--datastore',
      found: `the installation keeps its records in ${runs.type === 'orch' ? 'the API of Kubernetes' : 'etcd'}`,
      remedy:
        runs.type === 'orch'
          ? `Use --datastore orch, ${OR_REMOVE}`
          : `Set KV_ENDPOINTS to ${runs.endpoints}, ${OR_REMOVE}`,
    },
  ];
}

function etcdChanges(runs: Etcd, wanted: Etcd): readonly Change[] {
  const changes: Change[] = [];
  const [before, after] = [addressesIn(runs.endpoints), addressesIn(wanted.endpoints)];
  if (before.length === 0) {
    changes.push({
      field: 'KV_ENDPOINTS',
      found: 'the agents that run name no endpoints of etcd there, so it is not known whether this is their etcd',
      remedy: `Set KV_ENDPOINTS of the DaemonSet netplug-node first, ${OR_REMOVE}`,
    });
  } else if (!before.some((address) => after.includes(address))) {
    changes.push({
      field: 'KV_ENDPOINTS',
      found: `it names none of the endpoints of the installation, ${runs.endpoints}, but ${wanted.endpoints}`,
      remedy: `Set it to ${runs.endpoints}, with new members of the same etcd beside them, ${OR_REMOVE}`,
    });
  }
  if (runs.tls === 'secret' && wanted.tls === 'none') {
    changes.push({
      field: 'KV_CERT_FILE',
      found: 'it is not set, and the installation has certificates for etcd, which it would lose',
      remedy: `Name the files in KV_CA_CERT_FILE, KV_CERT_FILE and KV_KEY_FILE, ${OR_REMOVE}`,
    });
  } else if (before.length > 0 && !hasPlain(runs.endpoints) && hasPlain(wanted.endpoints)) {
    changes.push({
      field: 'KV_ENDPOINTS',
      found: `${wanted.endpoints} is not encrypted, and the installation encrypts its connections to etcd`,
      remedy: `Use https, ${OR_REMOVE}`,
    });
  }
  return changes;
}

/** Returns host and port of each endpoint: order, spelling and encryption do not tell one etcd from another. */
function addressesIn(endpoints: string): readonly string[] {
  return endpointsIn(endpoints).map((endpoint) => {
    const url = URL.parse(endpoint);
    if (url === null) return endpoint;
    const port = url.port === '' ? (ownValue(DEFAULT_PORTS, url.protocol) ?? '') : url.port;
    return `${url.hostname}:${port}`;
  });
}

function hasPlain(endpoints: string): boolean {
  return endpointsIn(endpoints).some((endpoint) => !endpoint.toLowerCase().startsWith('https:'));
}

function endpointsIn(endpoints: string): readonly string[] {
  return endpoints
    .split(',')
    .map((endpoint) => endpoint.trim())
    .filter((endpoint) => endpoint !== '');
}
