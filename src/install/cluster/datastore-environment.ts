import type { ClusterSettings } from './settings.ts';

/** Reports whether programs need the certificates of etcd. */
export function hasCertificates({ datastore }: Pick<ClusterSettings, 'datastore'>): boolean {
  return datastore.type === 'kvv3' && datastore.tls === 'secret';
}

/** Returns the variables of a program that name the datastore, with the certificates in this folder. */
export function datastoreEnvironment(
  settings: Pick<ClusterSettings, 'datastore'>,
  folder: string,
): Readonly<Record<string, string | undefined>> {
  const { datastore } = settings;
  return {
    DATASTORE_TYPE: datastore.type,
    KV_ENDPOINTS: datastore.type === 'kvv3' ? datastore.endpoints : undefined,
    ...(hasCertificates(settings)
      ? {
          KV_CA_CERT_FILE: `${folder}/ca.crt`,
          KV_CERT_FILE: `${folder}/tls.crt`,
          KV_KEY_FILE: `${folder}/tls.key`,
        }
      : {}),
  };
}
