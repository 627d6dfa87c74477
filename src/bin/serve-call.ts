import { hostname } from 'node:os';
import { DecodedNetconfs } from '../apps/agent/decoded-netconfs.ts';
import type { ServeCall } from '../apps/agent/conversation.ts';
import { IgnoredAnnotations } from '../apps/agent/ignored-annotations.ts';
import { onePerContainer, type ServeOrdered } from '../apps/agent/per-container.ts';
import type { ResidentNodes } from '../apps/agent/resident-nodes.ts';
import { StderrLines } from '../apps/agent/stderr-lines.ts';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import type { Log } from '../base/log.ts';
import { keptNotesIn } from '../cni/kept-notes.ts';
import { linkKeyIn } from '../cni/link-key.ts';
import { AttachmentFiles } from '../cni/attachment-files.ts';
import type { CallRecord } from '../cni/call-record.ts';
import type { OrchReader } from '../cni/orch-reader.ts';
import type { PodIsolation } from '../cni/pod-isolation.ts';
import { probeHttp } from '../cni/probe-http.ts';
import { runPlugin, type PluginDependencies } from '../cni/run-plugin.ts';
import type { Kernel } from '../dataplane/kernel.ts';
import { forwardingRecorder } from '../dataplane/linux/forwarding-record.ts';
import { linuxKernel } from '../dataplane/linux/linux-kernel.ts';
import type { NodeName } from '../model/names.ts';
import type { UsedRange } from '../model/used-range.ts';
import type { OrchSettings } from '../config/connection.ts';
import { callStore } from '../ipam/node/call-store.ts';
import { readVariable } from '../config/environment.ts';
import { execDelegateIn } from './exec-delegate.ts';
import { openLog } from './open-log.ts';
import { isCutOff, openPluginStoreIn } from './open-store.ts';
import { attachmentFolder, keptFolder, readOfferedMtu, stateDir } from './registration.ts';
import { readInstalledList } from './read-installed-list.ts';

export interface ServeCallPorts {
  readonly node: NodeName;
  readonly nodes: ResidentNodes;
  readonly openOrch: (settings: OrchSettings) => OrchReader & AsyncDisposable;
  readonly isolation: PodIsolation;
  readonly ownRanges: () => readonly UsedRange[];
  readonly onServed: (record: CallRecord) => void;
  /** Receives how long a call waited, in milliseconds, for an earlier call of the same container. */
  readonly onLockWait: (ms: number) => void;
  /** The log of the agent itself; each call has its own log. */
  readonly log: Log;
  /** The environment of the agent itself. */
  readonly env: NodeJS.ProcessEnv;
}

/** Returns a function that serves calls as the standalone program does, with shared stores, connections and kernels. */
export function serveCallIn({
  node,
  nodes,
  log,
  openOrch,
  isolation,
  ownRanges,
  onServed,
  onLockWait,
  env: own,
}: ServeCallPorts): ServeOrdered {
  const options = {
    sourceCheck: readVariable(own, 'NETPLUG_POD_SOURCE_CHECK'),
    record: forwardingRecorder(stateDir(own)),
  };
  const kernels = { own: linuxKernel({ ...options, allowOwnNetns: true }), others: linuxKernel(options) };
  const openKernel = ({ allowOwnNetns }: { allowOwnNetns: boolean }): Kernel =>
    allowOwnNetns ? kernels.own : kernels.others;
  const openStore: PluginDependencies['openStore'] = (datastore, call) =>
    isCutOff(datastore)
      ? openPluginStoreIn(own)(datastore, call)
      : callStore(nodes.get(datastore), async (phase, work) => call.stopwatch.time(phase, work));
  const bandwidthBurstMs = readVariable(own, 'NETPLUG_BANDWIDTH_BURST_MS');
  // The runtime does not pass it on.
  const confDir = readVariable(own, 'NETPLUG_CNI_CONF_DIR');
  const attachments = new AttachmentFiles(attachmentFolder(own));
  const keptNotes = keptNotesIn(keptFolder(own));
  const linkKey = linkKeyIn(stateDir(own));
  // It is there before the first call, which `plan add` predicts.
  void linkKey();
  const netconfs = new DecodedNetconfs();
  const ignoredAnnotations = new IgnoredAnnotations(log);
  const serve: ServeCall = async ({ kind, env, stdin }, gone) => {
    const stderr = new StderrLines();
    const { stdout, status, record } = await runPlugin(kind === 'netplug-ipam' ? 'netplug-ipam' : 'netplug', {
      env,
      hostname: hostname(),
      clock: systemClock,
      random: systemRandom,
      probeGate: probeHttp,
      interrupted: gone,
      readStdin: async () => Promise.resolve(stdin),
      decodeNetconf: (raw, from) => {
        const config = netconfs.decode(raw, from);
        // Under another main plugin annotations are not read at all.
        if (from.as === 'network') ignoredAnnotations.note(config, env);
        return config;
      },
      readRegisteredName: () => node,
      readOfferedMtu: () => readOfferedMtu(own),
      bandwidthBurstMs,
      ownRanges,
      openStore,
      openOrch,
      readInstalledList: (network) => readInstalledList(confDir, network),
      attachments,
      keptNotes,
      linkKey,
      isolation,
      openKernel,
      openLog: (settings) => openLog(settings, stderr.write),
      // The agent has replayed orphaned journals before it served its first call.
      recover: async () => Promise.resolve(),
      execDelegateFor: execDelegateIn(env, stderr.write),
    });
    onServed(record);
    return { status, stdout, stderr: stderr.text };
  };
  return onePerContainer(serve, systemClock, onLockWait);
}
