import { basename, dirname, join, resolve } from 'node:path';
import { ownValue } from '../base/own-value.ts';
import { never } from '../base/errors.ts';
import { CNI_TOKEN_NAME } from '../model/cni-token.ts';
import type { KubeconfigSource } from '../model/kubeconfig-source.ts';
import { urlHost } from '../net/address.ts';
import { type AccessInputs, accessInvalid, type OrchAccess, readServerUrl } from './access.ts';
import { runExecPlugin } from './exec-plugin.ts';
import { type ClusterEntry, type KubeconfigOrigin, type UserEntry, wrong } from './parse-kubeconfig.ts';
import { readNamedFile } from './read-files.ts';
import { orchconfigSource, readKubeconfig } from './read-kubeconfig.ts';
import { checkTls, type Credential, type Session, type TlsMaterial } from './session.ts';

const POD_FILES = '/var/run/secrets/kubernetes.io/serviceaccount';

/** Reads everything an access names. @throws store/config-invalid naming file, field and reason */
export async function loadSession(access: OrchAccess, inputs: AccessInputs, signal: AbortSignal): Promise<Session> {
  switch (access.from) {
    case 'api-root':
      return {
        server: readServerUrl(access.url, 'orch.orch_api_root'),
        tls: {},
        credential: { kind: 'none' },
        files: [],
      };
    case 'in-cluster':
      return loadPodSession(access.dir ?? POD_FILES, inputs);
    case 'file':
      return loadKubeconfigSession(orchconfigSource(access.path), { inputs, apiRoot: access.apiRoot }, signal);
    case 'kubeconfig':
      return loadKubeconfigSession(access, { inputs }, signal);
    default:
      return never(access);
  }
}

async function loadPodSession(dir: string, { env }: AccessInputs): Promise<Session> {
  const [host = '', port = ''] = [env['KUBERNETES_SERVICE_HOST'], env['KUBERNETES_SERVICE_PORT']];
  if (host === '' || port === '') {
    throw accessInvalid(
      'this is no pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set',
      'Run it in a pod, or give access with orch.orchconfig',
    );
  }
  const [tokenFile, caFile] = [join(dir, 'token'), join(dir, 'ca.crt')];
  const [token, ca] = [await readToken(tokenFile, 'the token of the pod'), await readNamedFile(caFile, 'ca.crt')];
  checkTls({ ca }, `"${caFile}"`);
  return {
    server: readServerUrl(`https://${urlHost(host)}:${port}`, 'KUBERNETES_SERVICE_HOST'),
    tls: { ca },
    credential: { kind: 'token', token, from: `file "${tokenFile}"` },
    files: [tokenFile, caFile],
  };
}

/** `apiRoot` replaces the server that the cluster entry names. */
async function loadKubeconfigSession(
  source: KubeconfigSource,
  { inputs, apiRoot }: { readonly inputs: AccessInputs; readonly apiRoot?: string | undefined },
  signal: AbortSignal,
): Promise<Session> {
  const { context, cluster, user, clusterOrigin, userOrigin } = await readKubeconfig(source);
  for (const field of ['as', 'as-uid', 'as-groups', 'as-user-extra'] as const) {
    if (user[field] !== undefined) throw wrong(userOrigin.path, `${userOrigin.field}.${field}: is not supported`);
  }
  const { path, field } = clusterOrigin;
  if ((cluster['proxy-url'] ?? '') !== '') throw wrong(path, `${field}.proxy-url: is not supported`);
  // Missing files too: the session is read again when one appears.
  const files = [...source.paths];
  const server =
    apiRoot === undefined
      ? readServerUrl(cluster.server, `file "${path}": ${field}.server`)
      : readServerUrl(apiRoot, 'orch.orch_api_root');
  const clusterTls = await readClusterTls(cluster, { ...clusterOrigin, files });
  const identity = await readIdentity(user, { ...userOrigin, files, inputs, signal, cluster, clusterTls });
  const tls = { ...clusterTls, ...identity.tls };
  checkTls(tls, path === userOrigin.path ? `file "${path}"` : `files "${path}" and "${userOrigin.path}"`);
  return { ...identity, context, server, tls, files };
}

interface Place extends KubeconfigOrigin {
  /** Gets every file that is read. */
  readonly files: string[];
}

async function readClusterTls(cluster: ClusterEntry, place: Place): Promise<TlsMaterial> {
  const ca = await readPem(cluster, 'certificate-authority', place);
  const servername = cluster['tls-server-name'] ?? '';
  const isInsecure = cluster['insecure-skip-tls-verify'] === true;
  if (isInsecure && ca !== undefined) {
    throw wrong(place.path, `${place.field}: certificate-authority and insecure-skip-tls-verify exclude each other`);
  }
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(servername === '' ? {} : { servername }),
    ...(isInsecure ? { rejectUnauthorized: false } : {}),
  };
}

type Identity = Pick<Session, 'credential' | 'expiresAt'> & { readonly tls: TlsMaterial };

async function readIdentity(
  user: UserEntry,
  more: Place & {
    readonly inputs: AccessInputs;
    readonly signal: AbortSignal;
    readonly cluster: ClusterEntry;
    readonly clusterTls: TlsMaterial;
  },
): Promise<Identity> {
  const { path, field } = more;
  if (user['auth-provider'] !== undefined && user['auth-provider'] !== null) {
    throw wrong(path, `${field}.auth-provider: is not supported; use exec`);
  }
  if (user.exec !== undefined && user.exec !== null) return runExecPlugin(user.exec, more);
  const cert = await readPem(user, 'client-certificate', more);
  const key = await readPem(user, 'client-key', more);
  if ((cert === undefined) !== (key === undefined)) {
    throw wrong(path, `${field}: client-certificate and client-key are given only together`);
  }
  const tls = cert === undefined || key === undefined ? {} : { cert, key };
  const bearer = await readBearer(user, more);
  if (bearer !== undefined) return { credential: bearer, tls };
  const { username, password } = user;
  if ((username ?? '') !== '') {
    const from = `${field} of file "${path}"`;
    return { credential: { kind: 'password', username: username ?? '', password: password ?? '', from }, tls };
  }
  if (cert === undefined) return { credential: { kind: 'none' }, tls };
  const file = user['client-certificate'];
  const from = (user['client-certificate-data'] ?? '') === '' ? `file "${file ?? ''}"` : `file "${path}"`;
  return { credential: { kind: 'certificate', cert, from }, tls };
}

/** Reads a token. As with the orchestrator's own tools, a token file goes before a token in the configuration. */
async function readBearer(user: UserEntry, { path, field, files }: Place): Promise<Credential | undefined> {
  const [token, tokenFile] = [user.token ?? '', user.tokenFile ?? ''];
  if (tokenFile !== '') {
    const file = resolve(dirname(path), tokenFile);
    files.push(file);
    return {
      kind: 'token',
      token: await readToken(file, `file "${path}": ${field}.tokenFile`),
      from: `file "${file}"`,
      isRenewedByAgent: basename(file) === CNI_TOKEN_NAME,
    };
  }
  return token === '' ? undefined : { kind: 'token', token, from: `file "${path}"` };
}

async function readToken(file: string, field: string): Promise<string> {
  const token = (await readNamedFile(file, field)).trim();
  if (token !== '' && /^[\x21-\x7e]+$/.test(token)) return token;
  throw accessInvalid(`${field} "${file}" holds no token`, 'Write the token into it, and nothing else');
}

/** A PEM text: base64 in the field `<name>-data`, otherwise a file named by the field, seen from the configuration. */
async function readPem(
  entry: Readonly<Record<string, unknown>>,
  name: string,
  { path, field, files }: Place,
): Promise<string | undefined> {
  const [data, named] = [ownValue(entry, `${name}-data`), ownValue(entry, name)];
  if (typeof data === 'string' && data !== '') {
    const pem = Buffer.from(data, 'base64').toString('utf8');
    if (pem.includes('-----BEGIN ')) return pem;
    throw wrong(path, `${field}.${name}-data: is not PEM in base64`);
  }
  if (typeof named !== 'string' || named === '') return undefined;
  const file = resolve(dirname(path), named);
  files.push(file);
  const pem = await readNamedFile(file, `file "${path}": ${field}.${name}`);
  if (pem.includes('-----BEGIN ')) return pem;
  throw wrong(path, `${field}.${name}: "${file}" holds nothing in PEM form`);
}
