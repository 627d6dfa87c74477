import { hostname } from 'node:os';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { AttachmentFiles } from '../cni/attachment-files.ts';
import { probeHttp } from '../cni/probe-http.ts';
import type { Program } from '../cni/call-record.ts';
import { runPlugin, type PluginDependencies } from '../cni/run-plugin.ts';
import { exportTrace } from './export-trace.ts';
import { forwardingRecorder } from '../dataplane/linux/forwarding-record.ts';
import { linuxKernel } from '../dataplane/linux/linux-kernel.ts';
import { decodeNetconf } from '../config/decode.ts';
import { readVariable } from '../config/environment.ts';
import { execDelegateIn } from './exec-delegate.ts';
import { openLog } from './open-log.ts';
import { openOrchIn } from './open-orch.ts';
import { openPluginStoreIn } from './open-store.ts';
import { readPluginListIn } from './read-plugin-list.ts';
import { attachmentFolder, readOfferedMtu, readRegisteredName, stateDir } from './registration.ts';
import { settleLeftoversIn } from './settle-leftovers.ts';
import { readStdin } from './read-stdin.ts';
import { unattendedIsolation } from './unattended-isolation.ts';
import { interruptions } from './interruptions.ts';
import { VERSION } from '../base/version.ts';

/** Serves one call of the runtime with the real dependencies. */
export async function runCni(program: Program): Promise<void> {
  const { env } = process;
  if ((env['CNI_COMMAND'] ?? '') === '') {
    process.stderr.write(`${program} ${VERSION}: a CNI plugin, called by a container runtime with CNI_COMMAND set\n`);
    process.exitCode = 0;
    return;
  }
  const dependencies: PluginDependencies = {
    env,
    hostname: hostname(),
    clock: systemClock,
    random: systemRandom,
    probeGate: probeHttp,
    interrupted: interruptions(),
    readStdin,
    decodeNetconf: (raw, { as }) => decodeNetconf(raw, as),
    readRegisteredName: () => readRegisteredName(env),
    readOfferedMtu: () => readOfferedMtu(env),
    openStore: openPluginStoreIn(env),
    openOrch: openOrchIn(env),
    readPluginList: readPluginListIn(env),
    attachments: new AttachmentFiles(attachmentFolder(env)),
    isolation: unattendedIsolation(env),
    openKernel: (options) =>
      linuxKernel({
        ...options,
        sourceCheck: readVariable(env, 'NETPLUG_POD_SOURCE_CHECK'),
        record: forwardingRecorder(stateDir(env)),
      }),
    openLog,
    recover: settleLeftoversIn(env),
    execDelegateFor: execDelegateIn(env),
  };
  const served = await runPlugin(program, dependencies);
  process.stdout.write(served.stdout);
  process.exitCode = served.status;
  await exportTrace(served, env);
}
