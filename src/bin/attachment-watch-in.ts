import { AttachmentWatch } from '../apps/agent/network/host/attachment-watch.ts';
import { systemClock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { systemRandom } from '../base/random.ts';
import { keptNotesIn } from '../cni/kept-notes.ts';
import type { Datastore } from '../config/connection.ts';
import type { Kernel } from '../dataplane/kernel.ts';
import { RESULTS_DIR } from '../install/host/runtime-records.ts';
import { OrchApi } from '../kube/orch-api.ts';
import type { Transport } from '../kube/transport.ts';
import { agentAccessIn } from './agent-access.ts';
import { warnOn } from './open-orch.ts';
import { keptFolder } from './registration.ts';

/** Returns what watches the attachments of this machine. Without the API datastore it writes no events. */
export function attachmentWatchIn(
  env: NodeJS.ProcessEnv,
  ports: { readonly log: Log; readonly kernel: Kernel; readonly datastore: Datastore; readonly transport: Transport },
): AttachmentWatch {
  const { log, kernel, datastore, transport } = ports;
  const api =
    datastore.type === 'orch' ? new OrchApi(agentAccessIn(env)(datastore.orch), { env, transport }) : undefined;
  return new AttachmentWatch({
    clock: systemClock,
    random: systemRandom,
    log,
    kernel,
    keptNotes: keptNotesIn(keptFolder(env)),
    runtimeRecords: RESULTS_DIR,
    warn:
      api === undefined
        ? undefined
        : async (pod, message, signal) => warnOn(api, { pod, reason: 'NetplugInterfaceMissing', message }, signal),
  });
}
