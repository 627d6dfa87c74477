import { access, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Context } from '../ports.ts';
import { readConfFiles } from './conf-files.ts';
import type { Places } from './sources.ts';

/**
 * Returns why this machine is not examined as a node; undefined when it is. A folder with the state of an agent does not make it
 * one: machines of administrators have such folders from a trial.
 */
export async function whyNotNode({ ports }: Context, { socket, confDir }: Places): Promise<string | undefined> {
  if (ports.host.uid !== 0) return 'the caller is not root; use --node to try anyway';
  if (await isThere(socket)) return undefined;
  const name = ports.readRegisteredName();
  if (name === undefined) return 'no agent has registered this machine; use --node to examine it anyway';
  const hasConflist = (await readConfFiles(confDir)).some(({ isOurs }) => isOurs);
  const hasPods = ports
    .openKernel()
    .listHostLinks()
    .some(({ owner }) => owner !== undefined);
  if (hasConflist || hasPods) return undefined;
  const { stateDir } = ports.machine;
  const journals = await readdir(join(stateDir, 'journal')).catch(() => []);
  const leftOver =
    journals.length === 0
      ? `"${stateDir}" is left over from node "${name}", and can be removed with: rm -r ${stateDir}`
      : `"${stateDir}" is left over from node "${name}", with a journal that may not be in the datastore`;
  return `no agent runs on this machine, and it has neither a conflist nor pod interfaces of netplug; ${leftOver}; use --node to examine it anyway`;
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
