import { spawn } from 'node:child_process';
import { isSea } from 'node:sea';
import type { FromNetwork } from '../apps/agent/network-channel.ts';
import type { LaunchedNetwork } from '../apps/agent/network-process.ts';

const PROGRAM = 'netplug-network';

/** Starts this executable again as the network process of the node. */
export function launchNetwork(onMessage: (message: FromNetwork) => void): LaunchedNetwork {
  const script = isSea() ? [] : [...process.execArgv, ...process.argv.slice(1, 2)];
  // /proc/self/exe, because an upgrade may have replaced the file at the path.
  const child = spawn('/proc/self/exe', script, {
    argv0: PROGRAM,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    serialization: 'advanced',
  });
  child.on('message', (message) => onMessage(message as FromNetwork)); // only the network process sends
  const ended = new Promise<string>((resolve) => {
    child.once('error', ({ message }) => resolve(message));
    child.once('exit', (status, signal) => resolve(signal ?? `status ${String(status)}`));
  });
  return {
    // Errors are ignored, because the process may have exited.
    send: (message) => void child.send(message, () => undefined),
    ended,
    kill: () => child.kill('SIGKILL'),
  };
}
