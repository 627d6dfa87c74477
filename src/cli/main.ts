import { never, NetplugError } from '../base/errors.ts';
import { cleanNode } from './node/clean-node.ts';
import { remove, write } from './resources/change-resources.ts';
import { readCommandLine } from './command-line.ts';
import { get } from './resources/get.ts';
import { install } from './install/install.ts';
import { ipamCheck } from './ipam/ipam-check.ts';
import { ipamShow } from './ipam/ipam-show.ts';
import type { Job } from './job.ts';
import { lint } from './lint/lint.ts';
import { nodeStatus } from './node/node-status.ts';
import type { Context, CtlPorts, Env, Io, Status } from './ports.ts';
import { removeNode } from './node/remove-node.ts';
import { reportError } from './report-error.ts';
import { trace } from './node/trace.ts';
import { uninstall } from './install/uninstall.ts';
import { version } from './version.ts';

/** Where a command line comes from and where its answers go. */
export interface Call {
  /** The words after the program's name. */
  readonly argv: readonly string[];
  readonly env: Env;
  readonly io: Io;
}

/** Runs one command and gives the exit status; never throws. */
export async function main(ports: CtlPorts, { argv, env, io }: Call): Promise<Status> {
  try {
    const { job, config, timeoutSeconds } = readCommandLine(argv, io.stdout);
    if (job === undefined) return 0;
    const signal = limitTo(timeoutSeconds, ports.interrupted);
    return await run({ ports, env, io, config, signal }, job);
  } catch (cause) {
    return reportError(io, cause);
  }
}

/** Aborted with an error that says why, when the time is over or somebody stops the tool. */
function limitTo(seconds: number, interrupted: AbortSignal): AbortSignal {
  const limit = new AbortController();
  const end = AbortSignal.any([interrupted, AbortSignal.timeout(Math.ceil(seconds * 1000))]);
  const giveUp = (): void => {
    const why = interrupted.aborted ? 'it was stopped' : `the ${String(seconds)} s for it are over`;
    limit.abort(
      new NetplugError('cni/deadline', `Cannot finish the command: ${why}`, {
        hint: 'Give it more time with --timeout SECONDS',
      }),
    );
  };
  if (end.aborted) giveUp();
  else end.addEventListener('abort', giveUp, { once: true });
  return limit.signal;
}

async function run(context: Context, job: Job): Promise<Status> {
  switch (job.verb) {
    case 'apply':
    case 'create':
    case 'replace':
      return write(context, job);
    case 'delete':
      return remove(context, job);
    case 'get':
      return get(context, job);
    case 'ipam-show':
      return ipamShow(context, job);
    case 'ipam-check':
      return ipamCheck(context, job);
    case 'lint':
      return lint(context, job);
    case 'install':
      return install(context, job);
    case 'uninstall':
      return uninstall(context, job);
    case 'node-status':
      return nodeStatus(context, job);
    case 'node-remove':
      return removeNode(context, job);
    case 'node-clean':
      return cleanNode(context, job);
    case 'trace':
      return trace(context, job);
    case 'version':
      return version(context, job);
    default:
      return never(job);
  }
}
