import { type ChildProcess, spawn } from 'node:child_process';
import type { FromNetwork } from '../apps/agent/network-channel.ts';
import type { LaunchedNetwork } from '../apps/agent/network-process.ts';
import { reasonOf } from '../base/errors.ts';
import { isExecutable } from '../base/executable.ts';

const PROGRAM = 'netplug-network';

/** Starts this executable again as the network process of the node. */
export function launchNetwork(onMessage: (message: FromNetwork) => void): LaunchedNetwork {
  const script = isExecutable() ? [] : [...process.execArgv, ...process.argv.slice(1, 2)];
  let child: ChildProcess;
  try {
    // /proc/self/exe, because an upgrade may have replaced the file at the path.
    child = spawn('/proc/self/exe', script, {
      argv0: PROGRAM,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      serialization: 'advanced',
    });
  } catch (cause) {
    // Such as ENOMEM. Node reports only some errors as an event.
    return { send: () => undefined, ended: Promise.resolve(reasonOf(cause)), kill: () => undefined };
  }
  child.on('message', (message) => onMessage(message as FromNetwork)); // only the network process sends
  const ended = new Promise<string>((resolve) => {
    child.once('error', ({ message }) => resolve(message));
    child.once('exit', (status, signal) => resolve(signal ?? `status ${String(status)}`));
  });
  return {
    // Errors are ignored, because the process may have exited. Without one, there is no channel.
    send: (message) => {
      if (child.pid !== undefined) child.send(message, () => undefined);
    },
    ended,
    kill: () => void child.kill('SIGKILL'),
  };
}
