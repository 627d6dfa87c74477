import { type FileHandle, open, rm } from 'node:fs/promises';
import { timeLimit } from '../../base/clock.ts';
import { NetplugError } from '../../base/errors.ts';
import { ignoreMissing } from '../../base/missing-file.ts';
import type { Mode } from '../../base/mode.ts';
import type { HostContext } from './host-ports.ts';
import { findLockHolder, isLockedWithin, isNetplug, type LockHolder } from './lock-holder.ts';

const ASK_MS = 5000;
/** A shutting-down agent first completes its calls, then flushes pending writes. */
const DRAIN_MS = 45_000;
const TERMINATE_MS = 10_000;
const KILL_MS = 5000;
const NOTHING: AsyncDisposable = { [Symbol.asyncDispose]: async () => Promise.resolve() };

/**
 * Stops the agent of this node, and holds its lock until disposed, so that no other agent starts. Requests a shutdown
 * on its socket. Without an answer, signals the process that holds its lock, which must be an executable of netplug.
 * @throws resource/in-use when the agent cannot be stopped
 */
export async function stopAgent(
  context: HostContext,
  { mode, onStopped }: { readonly mode: Mode; readonly onStopped: (what: string) => void },
): Promise<AsyncDisposable> {
  const { ports } = context;
  const { agentLock, socketPath } = ports.machine;
  // Without the file no agent has run on this node.
  const file = await open(agentLock, 'r+').catch(ignoreMissing);
  if (file === undefined) return NOTHING;
  await using scope = new AsyncDisposableStack();
  scope.use(file);
  if (!ports.tryLockFile(file.fd)) {
    const holder = await holderOf(context, file);
    if (mode === 'apply') await end(context, file, holder);
    onStopped(holder === undefined ? socketPath : `process ${String(holder.pid)}`);
  }
  // A killed agent leaves its socket behind.
  if (mode === 'apply') await rm(socketPath, { force: true });
  return scope.move();
}

async function end(context: HostContext, file: FileHandle, holder: LockHolder | undefined): Promise<void> {
  const isAsked = await requestShutdown(context);
  if (isAsked && (await isLockedWithin(context, file, DRAIN_MS))) return;
  for (const [name, ms] of isAsked ? ([KILL] as const) : ([TERMINATE, KILL] as const)) {
    const found = await holderOf(context, file);
    if (found === undefined) break;
    if (!isNetplug(found)) throw notStopped(`process ${String(found.pid)} ("${found.executable}") holds its lock`);
    context.ports.sendSignal(found.pid, name);
    if (await isLockedWithin(context, file, ms)) return;
  }
  // The agent may have exited since the last check.
  if (await isLockedWithin(context, file, 0)) return;
  throw notStopped(holder === undefined ? 'its process is not visible from here' : 'it does not exit');
}

const TERMINATE = ['SIGTERM', TERMINATE_MS] as const;
const KILL = ['SIGKILL', KILL_MS] as const;

/** Requests a shutdown. Returns whether the agent has accepted. */
async function requestShutdown({ ports, signal }: HostContext): Promise<boolean> {
  using limit = timeLimit(ASK_MS);
  const either = AbortSignal.any([signal, limit.signal]);
  return await ports.askAgent(ports.machine.socketPath, { kind: 'shut-down', text: '' }, either).then(
    () => true,
    () => {
      signal.throwIfAborted();
      return false;
    },
  );
}

async function holderOf({ ports }: HostContext, file: FileHandle): Promise<LockHolder | undefined> {
  return findLockHolder(await file.stat(), ports.host.procDir);
}

function notStopped(why: string): NetplugError {
  return new NetplugError('resource/in-use', `Cannot stop the netplug-agent of this node: ${why}`, {
    hint: 'Stop its service or its pod first, then repeat the command',
  });
}
