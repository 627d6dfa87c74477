import { hostname } from 'node:os';
import { systemClock } from '../base/clock.ts';
import type { LogSink } from '../base/log.ts';
import { systemRandom } from '../base/random.ts';
import { keptNotesIn } from '../cni/kept-notes.ts';
import { linkKeyIn } from '../cni/link-key.ts';
import { AttachmentFiles } from '../cni/attachment-files.ts';
import { probeHttp } from '../cni/probe-http.ts';
import type { PluginDependencies } from '../cni/run-plugin.ts';
import { decodeNetconf } from '../config/decode.ts';
import { readVariable } from '../config/environment.ts';
import { forwardingRecorder } from '../dataplane/linux/forwarding-record.ts';
import { linuxKernel } from '../dataplane/linux/linux-kernel.ts';
import { execDelegateIn } from './exec-delegate.ts';
import { openLog } from './open-log.ts';
import { openOrchIn } from './open-orch.ts';
import { openPluginStoreIn } from './open-store.ts';
import { ownRangesOfHost } from './own-ranges.ts';
import { readInstalledList } from './read-installed-list.ts';
import {
  attachmentFolder,
  keptFolder,
  readConfDir,
  readOfferedMtu,
  readRegisteredName,
  stateDir,
} from './registration.ts';
import { recoverOrphansIn } from './recover-orphans.ts';
import { unattendedIsolation } from './unattended-isolation.ts';

/** Differences between the calls of a node, wherever they are served without an agent. */
export interface StandaloneCall extends Pick<PluginDependencies, 'interrupted' | 'readStdin'> {
  readonly env: NodeJS.ProcessEnv;
  /** Receives the log; the stderr of this process unless given. */
  readonly writeStderr?: LogSink;
}

/** Returns the real dependencies of a call that is served without an agent, with connections of its own. */
export function pluginDependencies({ env, interrupted, readStdin, writeStderr }: StandaloneCall): PluginDependencies {
  return {
    env,
    hostname: hostname(),
    clock: systemClock,
    random: systemRandom,
    probeGate: probeHttp,
    interrupted,
    readStdin,
    decodeNetconf: (raw, { as }) => decodeNetconf(raw, as),
    readRegisteredName: () => readRegisteredName(env),
    readOfferedMtu: () => readOfferedMtu(env),
    bandwidthBurstMs: readVariable(env, 'NETPLUG_BANDWIDTH_BURST_MS'),
    ownRanges: ownRangesOfHost(),
    openStore: openPluginStoreIn(env),
    openOrch: openOrchIn(env),
    readInstalledList: (network) => readInstalledList(readConfDir(env), network),
    attachments: new AttachmentFiles(attachmentFolder(env)),
    keptNotes: keptNotesIn(keptFolder(env)),
    linkKey: linkKeyIn(stateDir(env)),
    isolation: unattendedIsolation(env),
    openKernel: (options) =>
      linuxKernel({
        ...options,
        sourceCheck: readVariable(env, 'NETPLUG_POD_SOURCE_CHECK'),
        record: forwardingRecorder(stateDir(env)),
      }),
    openLog: (settings) => openLog(settings, writeStderr),
    recover: recoverOrphansIn(env),
    execDelegateFor: execDelegateIn(env, writeStderr),
  };
}
