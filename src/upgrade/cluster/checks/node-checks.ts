import { AGENT_SET } from '../../../install/cluster/names.ts';
import { type Check, faultOf } from '../../../checks/check.ts';
import { nodeFault } from '../../../checks/cluster-checks.ts';
import { releaseIn } from '../../../model/image-release.ts';
import type { HazardFacts } from './hazard-facts.ts';

const MANY_RESTARTS = 5;
/** Restarts before that were overcome. */
const RECENT_MS = 3_600_000;

/** Checks of nodes and of the orchestrator itself. */
export const NODE_CHECKS: readonly Check<HazardFacts>[] = [
  {
    id: 'nodes/not-ready',
    severity: 'error',
    expected: 'every node ready',
    remedy: 'Repair the nodes, or remove them from the cluster',
    needs: ['nodes'],
    judge: ({ nodes }) =>
      nodeFault(
        'nodes are not ready, so that the roll-out would stop at them',
        nodes.filter(({ isReady }) => !isReady),
      ),
  },
  {
    id: 'nodes/cordoned',
    severity: 'warning',
    expected: 'every node schedulable',
    remedy: 'End the maintenance of these nodes first; "kubectl uncordon" lets them take pods again',
    needs: ['nodes'],
    judge: ({ nodes }) =>
      nodeFault(
        'nodes are cordoned, as before maintenance: the roll-out waits for one that goes down meanwhile',
        nodes.filter(({ isSchedulable }) => !isSchedulable),
      ),
  },
  {
    id: 'nodes/agent-missing',
    severity: 'error',
    expected: 'a ready agent on every node',
    remedy: 'See "kubectl describe pod -n netplug-system" and "netplugctl doctor" for these nodes; repair them first',
    needs: ['nodes', 'pods'],
    judge: ({ nodes, snapshot: { pods } }) => {
      const agents = pods.filter(({ component, phase }) => component === AGENT_SET && phase === 'ready');
      return nodeFault(
        'nodes have no ready agent, so that an upgrade could not be told from the present trouble',
        nodes.filter(({ name }) => !agents.some(({ node }) => node === name)),
      );
    },
  },
  {
    id: 'nodes/mixed-releases',
    severity: 'warning',
    expected: 'one release on all nodes',
    remedy: 'End it with the tool of that release, or continue if the target is the same',
    needs: ['pods'],
    judge: ({ snapshot: { pods } }) => {
      const agents = pods.filter(({ component }) => component === AGENT_SET);
      const images = new Set(agents.map(({ images: [image = ''] }) => releaseIn(image) ?? image));
      return faultOf(
        images.size > 1 ? agents.map(({ name, images: [image = ''] }) => `Pod ${name} (${image})`) : [],
        'agents of several releases run: an earlier upgrade has not ended',
      );
    },
  },
  {
    id: 'nodes/pods-restarting',
    severity: 'warning',
    expected: 'pods of netplug that do not restart',
    remedy: 'Read their logs with "kubectl logs --previous" and remove the cause first',
    needs: ['pods'],
    judge: ({ snapshot: { pods, at } }) =>
      faultOf(
        pods
          .filter(
            (pod) => pod.waiting !== undefined || (pod.restarts >= MANY_RESTARTS && isRecent(pod.restartedAt, at)),
          )
          .map(
            ({ namespace, name, waiting, restarts }) =>
              `Pod ${namespace}/${name} (${waiting ?? `${String(restarts)} restarts`})`,
          ),
        'pods of netplug restart or wait',
      ),
  },
];

/** A time that is unknown counts as recent. */
function isRecent(time: string | undefined, now: string): boolean {
  return time === undefined || Date.parse(now) - Date.parse(time) < RECENT_MS;
}
