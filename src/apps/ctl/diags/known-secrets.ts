import { readFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { parse, YAMLParseError } from 'yaml';
import { isRecord } from '../../../model/read-schema.ts';
import type { Sources } from '../doctor/sources.ts';
import { isSecretName, secretsIn } from './redact.ts';

/** Names of kubeconfig fields that hold the path of a secret. */
const SECRET_FILES = ['client-key', 'tokenFile'];
const BIRD_PASSWORD = /\bpassword\s+"([^"]*)"/g;

/**
 * Returns every secret found in the environment, configurations, kubeconfigs and key files of this machine, to redact
 * it wherever it occurs. Never fails.
 */
export async function gatherSecrets({ context, confFiles, connection }: Sources): Promise<ReadonlySet<string>> {
  const { env, ports, config } = context;
  const ofEnvironment = Object.entries(env).flatMap(([name, value = '']) => [
    ...(isSecretName(name) ? [value] : []),
    ...secretsIn(value),
  ]);
  const files = await confFiles().catch(() => []);
  const netconfs = files.flatMap(({ netconf }) => netconf ?? []);
  const datastores = [...netconfs.map(({ datastore }) => datastore), ...(await settled(connection))];
  const kubeconfigs = [
    ...netconfs.map(({ orch }) => orch.orchconfig),
    ...datastores.flatMap((datastore) =>
      datastore.type === 'orch' ? [datastore.orch.orchconfig, ...(datastore.orch.kubeconfig?.paths ?? [])] : [],
    ),
  ];
  const keys = datastores.map((datastore) => (datastore.type === 'kvv3' ? datastore.connection.keyFile : undefined));
  const bird = await textOf(join(ports.machine.runDir, 'bird/bird.conf'));
  return new Set([
    ...ofEnvironment,
    ...files.flatMap(({ text = '' }) => secretsIn(documentIn(text))),
    ...(config === undefined ? [] : secretsIn(documentIn(await textOf(config)))),
    ...(await Promise.all(kubeconfigs.map(async (path) => ofKubeconfig(path)))).flat(),
    ...(await Promise.all(keys.map(async (path) => textOf(path)))),
    await textOf(join(ports.machine.serviceAccountDir, 'token')),
    ...[...bird.matchAll(BIRD_PASSWORD)].map(([, password = '']) => password),
  ]);
}

async function settled(
  connection: Sources['connection'],
): Promise<Awaited<ReturnType<Sources['connection']>>['datastore'][]> {
  return connection().then(
    ({ datastore }) => [datastore],
    () => [],
  );
}

/** Returns the secrets of a kubeconfig and of the files it names. */
async function ofKubeconfig(path: string | undefined): Promise<readonly string[]> {
  if (path === undefined) return [];
  const document = documentIn(await textOf(path));
  const secrets = secretsIn(document);
  const inside = secrets.map((secret) => Buffer.from(secret, 'base64').toString('utf8'));
  const named = placesIn(document).map(async (file) => textOf(resolve(dirname(path), file)));
  // Base64 values are PEM texts. Other secrets decode to text that matches nothing.
  return [...secrets, ...inside.filter((text) => text.includes('-----BEGIN ')), ...(await Promise.all(named))];
}

function placesIn(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(placesIn);
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([name, each]) =>
    SECRET_FILES.includes(name) && typeof each === 'string' ? [each] : placesIn(each),
  );
}

/** Returns the text of a file, or '' when it is missing or unreadable: such a secret cannot be in the report either. */
async function textOf(path: string | undefined): Promise<string> {
  if (path === undefined) return '';
  return readFile(path, 'utf8').then(
    (text) => text.trim(),
    () => '',
  );
}

function documentIn(text: string): unknown {
  try {
    return parse(text) as unknown;
  } catch (cause) {
    if (!(cause instanceof YAMLParseError)) throw cause;
    return undefined;
  }
}
