import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { reasonOf } from '../../../base/errors.ts';
import { CNI_TOKEN_NAME } from '../../../model/cni-token.ts';
import type { KubeconfigSource } from '../../../model/kubeconfig-source.ts';
import type { Datastore, OrchSettings } from '../../../config/connection.ts';
import { tokenExpiry } from '../../../kube/jwt.ts';
import { orchconfigSource, readKubeconfig } from '../../../kube/read-kubeconfig.ts';
import { isUnboundToken } from '../../../kube/token-binding.ts';
import type { Context } from '../ports.ts';
import type { Sources } from './sources.ts';

/** A certificate or token, of a client or of an authority. */
export interface ShownCredential {
  /** Description, such as `client certificate in "/etc/…"`. */
  readonly what: string;
  readonly validFromMs: number | undefined;
  /** Undefined without an expiry. */
  readonly validToMs: number | undefined;
  /** Whether the private key does not match the certificate; undefined without a private key. */
  readonly isKeyOfAnother?: boolean;
  /** Whether it is a token of the plugin or the agent that is bound to no node. */
  readonly isUnbound?: boolean;
  /** Program that writes a new token into the file before this one expires; undefined for none. */
  readonly renewedBy?: 'kubelet' | 'agent' | undefined;
}

export interface CredentialFacts {
  readonly nowMs: number;
  readonly credentials: readonly ShownCredential[];
  readonly unusable: readonly string[];
}

interface Found {
  readonly credentials: ShownCredential[];
  readonly unusable: string[];
}

/** Reads the credentials of the command and of the network configuration. Runs no credential plugin. */
export async function gatherCredentials(sources: Sources): Promise<CredentialFacts> {
  const { context } = sources;
  const found: Found = { credentials: [], unusable: [] };
  const connections = await sources.connection().then(
    ({ datastore }) => [datastore],
    () => [],
  );
  const netconf = (await sources.confFiles()).find((file) => file.netconf !== undefined)?.netconf;
  const datastores = [...connections, ...(netconf === undefined ? [] : [netconf.datastore])];
  for (const datastore of datastores) await readDatastore(context, datastore, found);
  if (netconf !== undefined) await readOrch(context, netconf.orch, found);
  const unique = new Map(found.credentials.map((each) => [each.what, each]));
  return {
    nowMs: context.ports.clock.now(),
    credentials: [...unique.values()],
    unusable: [...new Set(found.unusable)],
  };
}

async function readDatastore(context: Context, datastore: Datastore, found: Found): Promise<void> {
  if (datastore.type === 'orch') return readOrch(context, datastore.orch, found);
  const { certFile, keyFile, caCertFile } = datastore.connection;
  await collect(found, async () => {
    const key = keyFile === undefined ? undefined : await readFile(keyFile, 'utf8');
    if (certFile === undefined) return [];
    return certificates(await readFile(certFile, 'utf8'), { what: `client certificate "${certFile}"`, key });
  });
  await collect(found, async () =>
    caCertFile === undefined
      ? []
      : certificates(await readFile(caCertFile, 'utf8'), { what: `root certificate in "${caCertFile}"` }),
  );
}

async function readOrch({ env, ports }: Context, orch: OrchSettings, found: Found): Promise<void> {
  const { orchconfig, apiRoot, kubeconfig } = orch;
  const source = orchconfig === undefined ? kubeconfig : orchconfigSource(orchconfig);
  if (source !== undefined) return collectKubeconfig(source, found);
  if (apiRoot !== undefined || (env['KUBERNETES_SERVICE_HOST'] ?? '') === '') return;
  const file = join(ports.machine.serviceAccountDir, 'token');
  await collect(found, async () => [
    { ...token(await readFile(file, 'utf8'), `token in "${file}"`), renewedBy: 'kubelet' },
  ]);
}

async function collectKubeconfig(source: KubeconfigSource, found: Found): Promise<void> {
  await collect(found, async () => {
    const { user, cluster, userOrigin, clusterOrigin } = await readKubeconfig(source);
    const { path } = userOrigin;
    const cert = await pemOf(user['client-certificate-data'], user['client-certificate'], path);
    const key = await pemOf(user['client-key-data'], user['client-key'], path);
    const caPath = clusterOrigin.path;
    const ca = await pemOf(cluster['certificate-authority-data'], cluster['certificate-authority'], caPath);
    const tokenFile = user.tokenFile ?? '';
    const tokenPath = resolve(dirname(path), tokenFile);
    return [
      ...(cert === undefined ? [] : certificates(cert, { what: `client certificate of "${path}"`, key })),
      ...(ca === undefined ? [] : certificates(ca, { what: `root certificate of "${caPath}"` })),
      ...(tokenFile === ''
        ? []
        : [
            { ...token(await readFile(tokenPath, 'utf8'), `token in "${tokenPath}"`), renewedBy: renewerOf(tokenPath) },
          ]),
      ...((user.token ?? '') === '' || tokenFile !== '' ? [] : [token(user.token ?? '', `token of "${path}"`)]),
    ];
  });
}

async function pemOf(
  data: string | null | undefined,
  file: string | null | undefined,
  beside: string,
): Promise<string | undefined> {
  if ((data ?? '') !== '') return Buffer.from(data ?? '', 'base64').toString('utf8');
  return (file ?? '') === '' ? undefined : readFile(resolve(dirname(beside), file ?? ''), 'utf8');
}

function certificates(
  pem: string,
  { what, key }: { readonly what: string; readonly key?: string | undefined },
): ShownCredential[] {
  const parts = [...pem.matchAll(/-----BEGIN (?:TRUSTED )?CERTIFICATE-----[^-]+-----END [A-Z ]+-----/g)];
  if (parts.length === 0) throw new Error(`${what}: the text holds no certificate in PEM form`);
  return parts.map(([text], index) => {
    const certificate = new X509Certificate(text);
    const subject = certificate.subject.replaceAll('\n', ', ');
    return {
      what: `${what} (${subject})`,
      validFromMs: Date.parse(certificate.validFrom),
      validToMs: Date.parse(certificate.validTo),
      // Only the first is the certificate of the key; the rest is its chain.
      ...(key === undefined || index > 0
        ? {}
        : { isKeyOfAnother: !certificate.checkPrivateKey(createPrivateKey(key)) }),
    };
  });
}

function renewerOf(tokenPath: string): 'kubelet' | 'agent' {
  return basename(tokenPath) === CNI_TOKEN_NAME ? 'agent' : 'kubelet';
}

function token(text: string, what: string): ShownCredential {
  const isUnbound = isUnboundToken(text.trim());
  return { what, validFromMs: undefined, validToMs: tokenExpiry(text.trim()), ...(isUnbound ? { isUnbound } : {}) };
}

async function collect(found: Found, read: () => Promise<readonly ShownCredential[]>): Promise<void> {
  try {
    found.credentials.push(...(await read()));
  } catch (cause) {
    found.unusable.push(reasonOf(cause));
  }
}
