import { errnoOf } from '../base/errors.ts';
import type { KubeconfigSource } from '../model/kubeconfig-source.ts';
import { accessInvalid } from './access.ts';
import { type KubeconfigChoice, type KubeconfigFile, listContexts, parseKubeconfig } from './parse-kubeconfig.ts';
import { readNamedFile } from './read-files.ts';

/** Returns the source for the one file that `orch.orchconfig` names. */
export function orchconfigSource(path: string): KubeconfigSource {
  return { paths: [path], namedBy: 'orch.orchconfig', ifMissing: 'refuse', context: undefined };
}

/** Reads the files and returns cluster and user of the context. @throws store/config-invalid naming file, field and reason */
export async function readKubeconfig(source: KubeconfigSource): Promise<KubeconfigChoice> {
  return parseKubeconfig(await readAll(source), source.context);
}

/** Returns the names of all contexts in the files. @throws store/config-invalid */
export async function readContextNames(source: KubeconfigSource): Promise<readonly string[]> {
  return listContexts(await readAll(source));
}

async function readAll(source: KubeconfigSource): Promise<readonly KubeconfigFile[]> {
  const found = await Promise.all(source.paths.map(async (path) => readOne(path, source)));
  const files = found.filter((file) => file !== undefined);
  if (files.length > 0) return files;
  throw accessInvalid(
    `${source.namedBy} names no file that exists (${source.paths.map((path) => `"${path}"`).join(', ')})`,
    `Correct ${source.namedBy}, or name a kubeconfig with --kubeconfig FILE`,
  );
}

async function readOne(path: string, { namedBy, ifMissing }: KubeconfigSource): Promise<KubeconfigFile | undefined> {
  try {
    return { path, content: await readNamedFile(path, namedBy) };
  } catch (error) {
    const isMissing = error instanceof Error && errnoOf(error.cause) === 'ENOENT';
    if (ifMissing === 'skip' && isMissing) return undefined;
    throw error;
  }
}
