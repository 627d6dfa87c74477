// An etcd of netplug's own on the control plane of a cluster, that serves only clients with a certificate.
import type { Cluster } from './cluster.ts';
import { makeTlsFolder } from './tls.ts';
import { until } from './until.ts';

export interface SecureEtcd extends Disposable {
  /** How programs of netplug reach it. */
  readonly variables: Readonly<Record<string, string>>;
}

const [CLIENTS, PEERS] = [2381, 2382];

/** Starts it; it ends with the cluster. Disposing removes the certificates. */
export async function startSecureEtcd({ control, etcdUrl }: Pick<Cluster, 'control' | 'etcdUrl'>): Promise<SecureEtcd> {
  const { hostname } = new URL(etcdUrl);
  const tls = makeTlsFolder();
  const authority = tls.authority('etcd-of-netplug');
  const server = authority.issue('etcd', [hostname, '127.0.0.1']);
  const client = authority.issue('netplug');
  const peers = `http://127.0.0.1:${String(PEERS)}`;
  const url = `https://${hostname}:${String(CLIENTS)}`;
  const etcd = await control.start([
    'etcd',
    '--unsafe-no-fsync',
    '--data-dir=/var/lib/netplug-test-secure-etcd',
    `--listen-client-urls=https://0.0.0.0:${String(CLIENTS)}`,
    `--advertise-client-urls=${url}`,
    `--listen-peer-urls=${peers}`,
    `--initial-advertise-peer-urls=${peers}`,
    `--initial-cluster=default=${peers}`,
    `--cert-file=${server.certFile}`,
    `--key-file=${server.keyFile}`,
    '--client-cert-auth',
    `--trusted-ca-file=${authority.certFile}`,
  ]);
  const health = ['etcdctl', `--endpoints=${url}`, `--cacert=${authority.certFile}`, 'endpoint', 'health'];
  const own = [`--cert=${client.certFile}`, `--key=${client.keyFile}`];
  await until(
    async () => (await control.run([...health, ...own])).status === 0,
    () => `etcd serves; it says:\n${etcd.log()}`,
  );
  if ((await control.run(health)).status === 0) throw new Error('etcd serves clients without a certificate');
  return {
    variables: {
      KV_ENDPOINTS: url,
      KV_CA_CERT_FILE: authority.certFile,
      KV_CERT_FILE: client.certFile,
      KV_KEY_FILE: client.keyFile,
    },
    [Symbol.dispose]: () => {
      tls[Symbol.dispose]();
    },
  };
}
