import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { NetplugError } from '../../../base/errors.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { isHttpUrl, URL_RULE } from '../../../config/url.ts';
import { fromFile } from '../connection.ts';
import { readSource } from '../inputs.ts';
import type { InstallOptions, OrchOptions } from './install-options.ts';
import { KUBECONFIG_NAME } from '../../../install/places.ts';
import type { Report } from './install-report.ts';
import type { Context } from '../ports.ts';
import type { ConflistAccess } from '../../../install/render-conflist.ts';
import { type KubeconfigOptions, type OrchUser, renderKubeconfig } from '../../../install/render-kubeconfig.ts';

export interface OrchPlan {
  /** What the conflist says. */
  readonly access: ConflistAccess;
  /** Text of the file to write, if one is to be written. */
  readonly kubeconfig: string | undefined;
}

/**
 * How the plugin on this node shall reach the API of the orchestrator: through a file written here when the flags say
 * with what, else through what the connection of the command names, else with the rights of the pod the tool runs in.
 * @throws cli/usage; no message quotes what a file holds
 */
export async function planOrchAccess(
  context: Context,
  { orch, confDir, hostConfDir }: Pick<InstallOptions, 'orch' | 'confDir' | 'hostConfDir'>,
  report: Report,
): Promise<OrchPlan> {
  const named = await readNamedAccess(context);
  const areFlags = Object.keys(orch).length > 0;
  if (areFlags && named.by !== 'none') {
    throw usage('Cannot use --orch-… flags: ORCHCONFIG or ORCH_API_ROOT says how to reach the API', 'Keep one of them');
  }
  const options = areFlags ? await fromFlags(orch) : named.by === 'none' ? await fromPod(context, report) : undefined;
  if (options === undefined) return { access: named, kubeconfig: undefined };
  return {
    access: { by: 'file', path: join(hostConfDir ?? confDir, KUBECONFIG_NAME) },
    kubeconfig: `${JSON.stringify(renderKubeconfig(options), undefined, 2)}\n`,
  };
}

/** From the file of `--config`, else from the environment, as the rest of the connection. */
async function readNamedAccess({ config, env }: Context): Promise<ConflistAccess> {
  const raw =
    config === undefined
      ? { orchconfig: env['ORCHCONFIG'], orch_api_root: env['ORCH_API_ROOT'] }
      : fromFile(await readSource(config));
  const { orchconfig: path, orch_api_root: url } = { ...raw, ...(isRecord(raw['orch']) ? raw['orch'] : {}) };
  if (typeof path === 'string' && path !== '') return { by: 'file', path };
  return typeof url === 'string' && url !== '' ? { by: 'url', url } : { by: 'none' };
}

async function fromFlags(flags: OrchOptions): Promise<KubeconfigOptions> {
  const { orchServer: server, orchCaFile: caFile } = flags;
  if (server === undefined)
    throw usage('Cannot write a kubeconfig: --orch-server is missing', 'Add the URL of the API');
  if (!isHttpUrl(server)) throw usage(`Cannot use --orch-server: allowed is ${URL_RULE}`, 'Correct the URL');
  return { server, caPem: caFile === undefined ? undefined : await readCa(caFile), user: await userOf(flags) };
}

async function userOf(flags: OrchOptions): Promise<OrchUser> {
  const { orchTokenFile: path, orchTokenFrom: from, orchClientCert: certFile, orchClientKey: keyFile } = flags;
  if ((certFile === undefined) !== (keyFile === undefined)) {
    throw usage('Cannot write a kubeconfig: certificate and key belong together', 'Use both --orch-client-… flags');
  }
  const users: OrchUser[] = [
    ...(path === undefined ? [] : [{ by: 'token-file', path } as const]),
    ...(certFile === undefined || keyFile === undefined ? [] : [{ by: 'certificate', certFile, keyFile } as const]),
    ...(from === undefined ? [] : [{ by: 'token', token: await readToken(from) } as const]),
  ];
  const [user, ...others] = users;
  if (user !== undefined && others.length === 0) return user;
  const state = user === undefined ? 'no credentials are given' : 'several credentials are given';
  throw usage(
    `Cannot write a kubeconfig: ${state}`,
    'Use one of --orch-token-file, --orch-token-from, and --orch-client-cert with --orch-client-key',
  );
}

/** What the orchestrator gives a pod; undefined outside of one, and in one that shall have no rights. */
async function fromPod({ env, ports }: Context, report: Report): Promise<KubeconfigOptions | undefined> {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = env;
  if (host === undefined || host === '' || port === undefined || port === '') return undefined;
  const { serviceAccountDir } = ports.machine;
  const tokenFile = join(serviceAccountDir, 'token');
  const mayUseApi = await access(tokenFile).then(
    () => true,
    () => false,
  );
  if (!mayUseApi) {
    report.warn(`no kubeconfig is written: there is no "${tokenFile}", so this pod has no rights to hand on`);
    return undefined;
  }
  return {
    server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
    caPem: await readCa(join(serviceAccountDir, 'ca.crt')),
    // The file of the token is the pod's own: the host cannot see it.
    user: { by: 'token', token: await readToken(tokenFile) },
  };
}

async function readCa(file: string): Promise<string> {
  const { text } = await readSource(file);
  const isKey = text.includes('PRIVATE KEY-----');
  if (text.includes('-----BEGIN CERTIFICATE-----') && !isKey) return text;
  const state = isKey ? 'a private key is in it' : 'no certificate is in it';
  throw usage(`Cannot use "${file}" as root certificates: ${state}`, 'Name a PEM file of certificates alone');
}

async function readToken(file: string): Promise<string> {
  const token = (await readSource(file)).text.trim();
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  const state = token === '' ? 'the file is empty' : 'white space or other characters are in it';
  throw usage(`Cannot use "${file}" as a token: ${state}`, 'Name a file that holds one token and nothing else');
}

function usage(message: string, hint: string): NetplugError {
  return new NetplugError('cli/usage', message, { hint });
}
