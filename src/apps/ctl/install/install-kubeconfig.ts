import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { NetplugError } from '../../../base/errors.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { isHttpUrl, URL_RULE } from '../../../config/url.ts';
import { urlHost } from '../../../net/address.ts';
import { fromFile } from '../connection.ts';
import { isBoundToPod } from '../../../kube/jwt.ts';
import { readSource } from '../inputs.ts';
import { type InstallOptions, ORCH_FLAGS, type OrchOptions } from './install-options.ts';
import { KUBECONFIG_NAME } from '../../../install/places.ts';
import type { Report } from './install-report.ts';
import type { Context } from '../ports.ts';
import { jsonText } from '../render-document.ts';
import type { ConflistAccess } from '../../../install/render-conflist.ts';
import { type KubeconfigOptions, type OrchUser, renderKubeconfig } from '../../../install/render-kubeconfig.ts';

export interface OrchPlan {
  /** The access that the conflist configures. */
  readonly access: ConflistAccess;
  /** Text of the kubeconfig to write; undefined when none is written. */
  readonly kubeconfig: string | undefined;
}

/**
 * Decides how the plugin on this node reaches the API of the orchestrator: by a kubeconfig made from the flags, else as
 * the connection of the command says, else by a kubeconfig made from the service account of this pod.
 * @throws cli/usage; no message quotes the contents of a file
 */
export async function planOrchAccess(
  context: Context,
  { orch, confDir, hostConfDir }: Pick<InstallOptions, 'orch' | 'confDir' | 'hostConfDir'>,
  report: Report,
): Promise<OrchPlan> {
  const named = await readNamedAccess(context);
  const areFlags = ORCH_FLAGS.some((flag) => orch[flag] !== undefined);
  if (areFlags && named.by !== 'none') {
    throw usage(
      'Cannot use --orch-… flags: ORCHCONFIG or ORCH_API_ROOT is set',
      'Remove either the flags or the variable',
    );
  }
  const options = areFlags ? await fromFlags(orch) : named.by === 'none' ? await fromPod(context, report) : undefined;
  if (options === undefined) return { access: named, kubeconfig: undefined };
  return {
    access: { by: 'file', path: join(hostConfDir ?? confDir, KUBECONFIG_NAME) },
    kubeconfig: jsonText(renderKubeconfig(options)),
  };
}

/** Reads the access from the file of `--config`, else from the environment. */
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
    throw usage('Cannot write a kubeconfig: --orch-server is missing', 'Add --orch-server with the URL of the API');
  if (!isHttpUrl(server)) throw usage(`Cannot use --orch-server: allowed is ${URL_RULE}`, 'Correct the URL');
  return { server, caPem: caFile === undefined ? undefined : await readCa(caFile), user: await userOf(flags) };
}

async function userOf(flags: OrchOptions): Promise<OrchUser> {
  const { orchTokenFile: path, orchTokenFrom: from, orchClientCert: certFile, orchClientKey: keyFile } = flags;
  if ((certFile === undefined) !== (keyFile === undefined)) {
    throw usage(
      'Cannot write a kubeconfig: certificate and key must be given together',
      'Use both --orch-client-cert and --orch-client-key',
    );
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

/** Makes a kubeconfig from the service account of this pod; undefined outside a pod, and without a token. */
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
    report.warn(
      `no kubeconfig is written: "${tokenFile}" does not exist, so that this pod has no credentials to pass on`,
    );
    return undefined;
  }
  // The token is copied, because the host cannot read the file in the pod.
  const token = await readToken(tokenFile);
  if (isBoundToPod(token)) {
    throw usage(
      `Cannot copy the token of "${tokenFile}" to the host: it ends with this pod`,
      'Use --executables-only and let the agent renew a token (NETPLUG_CNI_ACCOUNT), or give --orch-server and --orch-token-file',
    );
  }
  return {
    server: `https://${urlHost(host)}:${port}`,
    caPem: await readCa(join(serviceAccountDir, 'ca.crt')),
    user: { by: 'token', token },
  };
}

async function readCa(file: string): Promise<string> {
  const { text } = await readSource(file);
  const isKey = text.includes('PRIVATE KEY-----');
  if (text.includes('-----BEGIN CERTIFICATE-----') && !isKey) return text;
  const state = isKey ? 'it contains a private key' : 'it contains no certificate';
  throw usage(`Cannot use "${file}" as root certificates: ${state}`, 'Give a PEM file that contains certificates only');
}

async function readToken(file: string): Promise<string> {
  const token = (await readSource(file)).text.trim();
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  const state = token === '' ? 'the file is empty' : 'it contains white space or other invalid characters';
  throw usage(`Cannot use "${file}" as a token: ${state}`, 'Give a file that contains only the token');
}

function usage(message: string, hint: string): NetplugError {
  return new NetplugError('cli/usage', message, { hint });
}
