import { AGENT_SET } from '../../../install/cluster/names.ts';
import { ARCHITECTURES, isTooOld, REQUIREMENTS } from '../../../model/requirements.ts';
import { agentNodes } from '../agent-nodes.ts';
import { hazardOf, type PreflightCheck } from './check.ts';

const MANY_RESTARTS = 5;
/** Restarts before that were overcome. */
const RECENT_MS = 3_600_000;

/** Checks of nodes and of the orchestrator itself. */
export const NODE_CHECKS: readonly PreflightCheck[] = [
  {
    id: 'server/too-old',
    severity: 'block',
    expected: `an API server of Kubernetes ${REQUIREMENTS.kubernetes.oldest} or later`,
    judge: ({ snapshot: { kubernetes } }) =>
      hazardOf(
        isTooOld('kubernetes', kubernetes) ? [`API server (${kubernetes})`] : [],
        `the API server has version ${kubernetes}`,
        'Upgrade Kubernetes first; the present release of netplug keeps working meanwhile',
      ),
  },
  {
    id: 'nodes/not-ready',
    severity: 'block',
    expected: 'every node ready',
    judge: ({ snapshot }) =>
      hazardOf(
        agentNodes(snapshot)
          .filter(({ isReady }) => !isReady)
          .map(({ name }) => `Node/${name}`),
        'nodes are not ready, so that the roll-out would stop at them',
        'Repair the nodes, or remove them from the cluster',
      ),
  },
  {
    id: 'nodes/cordoned',
    severity: 'warning',
    expected: 'every node schedulable',
    judge: ({ snapshot }) =>
      hazardOf(
        agentNodes(snapshot)
          .filter(({ isSchedulable }) => !isSchedulable)
          .map(({ name }) => `Node/${name}`),
        'nodes are cordoned, as before maintenance: the roll-out waits for one that goes down meanwhile',
        'End the maintenance of these nodes first; "kubectl uncordon" lets them take pods again',
      ),
  },
  {
    id: 'nodes/kubelet-too-old',
    severity: 'block',
    expected: `every kubelet of Kubernetes ${REQUIREMENTS.kubernetes.oldest} or later`,
    judge: ({ snapshot }) =>
      hazardOf(
        agentNodes(snapshot)
          .filter(({ kubelet }) => isTooOld('kubernetes', kubelet))
          .map(({ name, kubelet }) => `Node/${name} (${kubelet})`),
        'kubelets are older than the target supports',
        'Upgrade the kubelets of these nodes first',
      ),
  },
  {
    id: 'nodes/runtime-too-old',
    severity: 'block',
    expected: `containerd ${REQUIREMENTS.containerd.oldest} or later on every node that runs containerd`,
    judge: ({ snapshot }) =>
      hazardOf(
        agentNodes(snapshot)
          .filter(({ runtime }) => isTooOld('containerd', /^containerd:\/\/(.+)$/.exec(runtime)?.[1] ?? ''))
          .map(({ name, runtime }) => `Node/${name} (${runtime})`),
        'nodes run a containerd that the target does not support',
        'Upgrade containerd on these nodes first',
      ),
  },
  {
    id: 'nodes/kernel-too-old',
    severity: 'warning',
    expected: `Linux ${REQUIREMENTS.kernel.oldest} or later on every node`,
    judge: ({ snapshot }) =>
      hazardOf(
        agentNodes(snapshot)
          .filter(({ kernel }) => isTooOld('kernel', kernel))
          .map(({ name, kernel }) => `Node/${name} (${kernel})`),
        'nodes have a kernel on which the target has not been tested',
        'Upgrade the kernel, or try the target on one such node first',
      ),
  },
  {
    id: 'nodes/architecture',
    severity: 'block',
    expected: `nodes of the architectures ${ARCHITECTURES.join(' and ')}`,
    judge: ({ snapshot }) =>
      hazardOf(
        agentNodes(snapshot)
          .filter(({ architecture }) => !ARCHITECTURES.includes(architecture))
          .map(({ name, architecture }) => `Node/${name} (${architecture})`),
        'nodes have an architecture for which the target has no image',
        'Keep netplug off these nodes with spec.node.nodeSelector, or remove the nodes',
      ),
  },
  {
    id: 'nodes/agent-missing',
    severity: 'block',
    expected: 'a ready agent on every node',
    judge: ({ snapshot }) =>
      hazardOf(
        agentNodes(snapshot)
          .filter(
            ({ name }) =>
              !snapshot.pods.some(
                ({ node, component, ready, containers }) =>
                  node === name && component === AGENT_SET && ready === containers,
              ),
          )
          .map(({ name }) => `Node/${name}`),
        'nodes have no ready agent, so that an upgrade could not be told from the present trouble',
        'See "kubectl describe pod -n netplug-system" and "netplugctl doctor" for these nodes; repair them first',
      ),
  },
  {
    id: 'nodes/mixed-releases',
    severity: 'warning',
    expected: 'one release on all nodes',
    judge: ({ snapshot: { pods } }) => {
      const agents = pods.filter(({ component }) => component === AGENT_SET);
      const images = new Set(agents.map(({ images: [image = ''] }) => image));
      return hazardOf(
        images.size > 1 ? agents.map(({ name, images: [image = ''] }) => `Pod/${name} (${image})`) : [],
        'agents of several releases run: an earlier upgrade has not ended',
        'End it with the tool of that release, or continue if the target is the same',
      );
    },
  },
  {
    id: 'nodes/pods-restarting',
    severity: 'warning',
    expected: 'pods of netplug that do not restart',
    judge: ({ snapshot: { pods, at } }) =>
      hazardOf(
        pods
          .filter((pod) => pod.waiting.length > 0 || (pod.restarts >= MANY_RESTARTS && isRecent(pod.restartedAt, at)))
          .map(
            ({ namespace, name, waiting, restarts }) =>
              `Pod/${namespace}/${name} (${waiting[0] ?? `${String(restarts)} restarts`})`,
          ),
        'pods of netplug restart or wait',
        'Read their logs with "kubectl logs --previous" and remove the cause first',
      ),
  },
  {
    id: 'server/webhooks',
    severity: 'block',
    expected:
      'no webhook with failurePolicy Fail that depends on the network of pods and is asked about pods of netplug',
    judge: ({ snapshot: { webhooks } }) =>
      hazardOf(
        webhooks.filter((hook) => hook.isBehindPodNetwork && hook.failurePolicy === 'Fail').map(({ name }) => name),
        'webhooks behind the network of pods must answer before an agent can start',
        'Exclude the namespace netplug-system by a namespaceSelector of the webhook, or set failurePolicy: Ignore for the time of the upgrade',
      ),
  },
  {
    id: 'server/rights',
    severity: 'block',
    expected: 'every right that the steps need',
    judge: ({ snapshot: { missingRights } }) =>
      hazardOf(
        missingRights,
        'your account lacks rights that the steps need',
        'Use an account with these rights, such as one bound to cluster-admin',
      ),
  },
];

/** A time that is unknown counts as recent. */
function isRecent(time: string | undefined, now: string): boolean {
  return time === undefined || Date.parse(now) - Date.parse(time) < RECENT_MS;
}
