import { constants, mkdirSync, openSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { runAgent as serveNode } from '../apps/agent/agent.ts';
import { callHistory } from '../apps/agent/call-history.ts';
import { startHealthServer } from '../apps/agent/health-server.ts';
import { createMetrics } from '../apps/agent/metrics.ts';
import { ResidentNodes } from '../apps/agent/resident-nodes.ts';
import { AttachmentFiles } from '../cni/attachment-files.ts';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { reportError } from '../base/report-error.ts';
import { readOwnVariables } from '../config/choose-connection.ts';
import { readVariable } from '../config/environment.ts';
import { tryLockFile } from '../dataplane/linux/file-lock.ts';
import { linuxKernel } from '../dataplane/linux/linux-kernel.ts';
import type { NodeName } from '../model/names.ts';
import { agentAccessIn } from './agent-access.ts';
import { attachedIn } from './attached.ts';
import { hostIn } from './host-in.ts';
import { livingIn } from './living-in.ts';
import { interruptions } from './interruptions.ts';
import { agentLockPath } from './machine.ts';
import { openLog } from './open-log.ts';
import { openStoreIn } from './open-store.ts';
import { attachmentFolder, stateDir } from './registration.ts';
import { residentNetwork } from './resident-network.ts';
import { residentOrch } from './resident-orch.ts';
import { residentTraces } from './resident-traces.ts';
import { serveCallIn } from './serve-call.ts';
import { journalFolder } from './settle-leftovers.ts';

const LOG = { level: 'INFO', filePath: undefined, fileMaxSizeMb: 100, fileMaxAgeDays: 30, fileMaxCount: 10 } as const;

/** Runs the agent of the node until it is told to end or another one takes over. */
export async function runAgent(): Promise<void> {
  try {
    await run(process.env);
    process.exitCode = 0;
  } catch (cause) {
    const stderr = (text: string): void => void process.stderr.write(text);
    process.exitCode = reportError({ stderr }, cause);
  }
}

async function run(env: NodeJS.ProcessEnv): Promise<void> {
  const log = openLog(LOG);
  const node = readVariable({ NODENAME: hostname(), ...env }, 'NODENAME') as NodeName; // checked here and nowhere else
  const { datastore, warnings } = readOwnVariables(env);
  for (const warning of warnings) log.warning('configuration', { warning });
  const address = readVariable(env, 'NETPLUG_HEALTH_ADDRESS');
  const stockFloor = readVariable(env, 'NETPLUG_STOCK');

  mkdirSync(stateDir(env), { recursive: true });
  const lock = openSync(agentLockPath(env), constants.O_RDWR | constants.O_CREAT, 0o600);
  const base = { clock: systemClock, random: systemRandom, log };
  const openStore = openStoreIn(env, { log, findAccess: agentAccessIn(env) });
  const history = callHistory();
  using metrics = createMetrics(() => ({ ...nodes.standing(), network: network.current()?.standing() }));
  await using traces = residentTraces(env, log);
  await using orch = residentOrch(node, env, log);
  const kernel = linuxKernel();
  const nodes = new ResidentNodes(
    openStore,
    {
      ...base,
      place: { folder: journalFolder(env), tryLock: tryLockFile },
      host: hostIn(env),
      listAttached: attachedIn(kernel),
      listLiving: livingIn(kernel, new AttachmentFiles(attachmentFolder(env))),
      onJournalWait: metrics.observeJournalSync,
      onPublished: metrics.observePublicationWait,
    },
    { node, stockFloor },
  );
  const network = residentNetwork(env, { ...base, node, datastore });
  const serveCall = serveCallIn({
    node,
    nodes,
    log,
    env,
    openOrch: orch.open,
    onLockWait: (ms) => metrics.observeLockWait('container', ms),
    onServed: (record) => {
      history.add(record);
      metrics.observeCall(record);
      traces.add(record);
    },
  });
  await serveNode(
    {
      ...base,
      nodes,
      openStore,
      serveCall,
      showCalls: history.answer,
      onCount: metrics.setCallsInFlight,
      onLockWait: (ms) => metrics.observeLockWait('agent', ms),
      openNetwork: network.open,
      tryBecomeOnly: () => tryLockFile(lock),
      startHealth: async () =>
        address === 'off'
          ? undefined
          : startHealthServer(address, {
              notReady: () => [...nodes.problems(), ...(network.current()?.failures() ?? [])],
              metrics,
              log,
            }),
    },
    {
      node,
      datastore,
      socketPath: readVariable(env, 'NETPLUG_SOCKET'),
      namePath: join(stateDir(env), 'nodename'),
    },
    interruptions(),
  );
}
