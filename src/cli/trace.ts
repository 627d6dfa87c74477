import { join } from 'node:path';
import { isNetplugError, NetplugError, reasonOf } from '../base/errors.ts';
import { type CallsQuestion, readShownCalls, type ShownCall } from '../model/shown-call.ts';
import type { Job } from './job.ts';
import type { Context, Status } from './ports.ts';
import { renderWaterfall } from './waterfall.ts';

type TraceJob = Extract<Job, { verb: 'trace' }>;

/** Shows the last calls of this node. @throws agent/unreachable, agent/protocol */
export async function trace(context: Context, job: TraceJob): Promise<Status> {
  const { io } = context;
  const calls = await askForCalls(context, job);
  if (job.output === 'json') io.stdout(`${JSON.stringify({ calls }, undefined, 2)}\n`);
  else if (calls.length > 0) io.stdout(renderWaterfall(calls, io.screen));
  else io.stderr('The agent has served no such call since it started\n');
  return 0;
}

async function askForCalls({ ports, signal }: Context, job: TraceJob): Promise<readonly ShownCall[]> {
  const { last, pod, order } = job;
  const question: CallsQuestion = { last, pod, order };
  const socket = job.socket ?? join(ports.machine.runDir, 'cni.sock');
  const answer = await ports.showCalls(socket, JSON.stringify(question), signal).catch((cause: unknown) => {
    if (isNetplugError(cause)) throw cause;
    const reason = reasonOf(cause);
    throw new NetplugError('agent/unreachable', `Cannot ask the agent at "${socket}": ${reason}`, {
      hint: 'Run this as root on a node where netplug-agent runs, or name its socket with --socket',
      cause,
    });
  });
  const calls = readShownCalls(answer);
  if (calls !== undefined) return calls;
  throw new NetplugError('agent/protocol', `Cannot understand the answer of the agent at "${socket}"`, {
    hint: 'Use a netplugctl of the same version as the agent',
  });
}
