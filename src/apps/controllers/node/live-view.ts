import * as v from 'valibot';
import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import type { NodeControllerSettings } from '../../../config/controllers-settings.ts';
import type { PodPresence } from '../../../ipam/garbage/pod-presence.ts';
import type { LiveView } from '../../../ipam/garbage/views.ts';
import type { ApiAnswer } from '../../../kube/answers.ts';
import { type ApiObject, isMirrorPod } from '../../../kube/objects.ts';
import { isObjectName, NODES, PODS } from '../../../kube/paths.ts';
import type { ControllerPorts } from '../controller.ts';
import { isOutOfService } from './out-of-service.ts';
import { isOfOrchestrator } from './plan-node.ts';

const PodParts = v.object({
  spec: v.object({ nodeName: v.nullish(v.string(), '') }),
  status: v.optional(v.object({ phase: v.nullish(v.string(), '') }), {}),
});

/** Asks the API, and for a node that it does not have the records of the datastore. */
export function liveView(
  { api, store, confirmCluster }: Pick<ControllerPorts, 'api' | 'store' | 'confirmCluster'>,
  records: NodeControllerSettings['nodeRecords'],
): LiveView {
  return {
    findPod: async (namespace, name, signal) => {
      const pod = found(await api.get({ ...PODS, namespace }, name, signal), `pod "${namespace}/${name}"`);
      return pod === undefined ? undefined : presenceOf(pod);
    },
    standingOf: async (name, signal) => {
      await confirmCluster(signal);
      const node = isObjectName(name) ? found(await api.get(NODES, name, signal), `node "${name}"`) : undefined;
      if (node !== undefined) return isOutOfService(node) ? 'out-of-service' : 'present';
      if (records !== 'own') return 'gone';
      const record = await store.findResource({ kind: 'Node', name }, signal).catch((cause: unknown) => {
        // What it said is not known, and other nodes must not wait for its repair.
        if (!isNetplugError(cause, 'store/corrupt')) throw cause;
      });
      return record !== undefined && isOfOrchestrator(record) ? 'gone' : 'foreign';
    },
  };
}

/** Only "not found" says that an object is not there. @throws store/unavailable */
function found(answer: ApiAnswer<ApiObject>, what: string): ApiObject | undefined {
  if (answer.outcome === 'ok') return answer.value;
  if (answer.outcome === 'not-found') return undefined;
  throw unreadable(what, answer.message);
}

function unreadable(what: string, why: string): NetplugError {
  return new NetplugError('store/unavailable', `Cannot read ${what} from the orchestrator: ${why}`, {
    hint: 'Check that the API server is available; the controller retries',
  });
}

/** Returns what a pod of the API says about the holder of its addresses. @throws store/unavailable */
export function presenceOf(pod: ApiObject): PodPresence {
  const { uid } = pod.metadata;
  // The pod is known by a uid of its static pod, or of an earlier mirror pod.
  const uids = uid === undefined || isMirrorPod(pod) ? [] : [uid];
  const read = v.safeParse(PodParts, pod);
  if (!read.success) throw unreadable(`pod "${pod.metadata.name}"`, read.issues[0].message);
  const { spec, status } = read.output;
  return { uids, node: spec.nodeName ?? '', isFinished: status.phase === 'Succeeded' || status.phase === 'Failed' };
}
