import { join } from 'node:path';
import { NetplugError, reasonOf } from '../../../base/errors.ts';
import { exec, type ExecResult } from '../../../base/exec.ts';
import { tryParseJson } from '../../../base/try-parse-json.ts';
import { visibleText } from '../../../base/visible-text.ts';
import type { DelegatedNetwork } from '../../../cni/delegated-networks.ts';
import { delOf, type LeakedReservation } from '../../../cni/leaked-reservations.ts';
import { isJsonObject } from '../../../cni/result.ts';
import type { CtlPorts } from '../ports.ts';

/** Calls DEL of the installed netplug, which asks the agent of the node when one runs. @throws delegate/failed */
export async function endAttachment(
  {
    plugin,
    machine,
  }: { readonly plugin: Pick<CtlPorts['plugin'], 'binDir'> } & {
    readonly machine: Pick<CtlPorts['machine'], 'stateDir' | 'socketPath'>;
  },
  { network, leaked }: { readonly network: DelegatedNetwork; readonly leaked: LeakedReservation },
  signal: AbortSignal,
): Promise<void> {
  const file = join(plugin.binDir, 'netplug');
  const { env: call, stdin } = delOf(network, leaked, plugin.binDir);
  const env = { ...call, NETPLUG_SOCKET: machine.socketPath, NETPLUG_STATE_DIR: machine.stateDir };
  const failure = await exec(file, [], { env, stdin, signal }).then(failureIn, reasonOf);
  if (failure === undefined) return;
  const what = `Cannot release the addresses of container "${leaked.containerId}" with DEL of "${file}"`;
  throw new NetplugError('delegate/failed', visibleText(`${what}: ${failure}`), {
    hint: 'Correct what DEL names, and run "netplugctl ipam check --fix" again',
    facts: { file },
  });
}

function failureIn({ status, stdout }: ExecResult): string | undefined {
  if (status === 0) return undefined;
  const answer = tryParseJson(stdout);
  return isJsonObject(answer) ? String(answer['msg']) : `it ended with status ${String(status ?? 'none')}`;
}
