import { counted } from '../../../../base/counted.ts';
import { type NetplugError, reasonAndRemedy } from '../../../../base/errors.ts';
import { forEachLimit } from '../../../../base/for-each-limit.ts';
import { VERSION } from '../../../../base/version.ts';
import { visibleText } from '../../../../base/visible-text.ts';
import { AGENT_SET, systemObject } from '../../../../install/cluster/names.ts';
import { findObject } from '../../../../kube/objects/apply.ts';
import { type ObjectReference, referenceKey, referenceTo } from '../../../../kube/objects/reference.ts';
import { type NodeState, readNodes } from '../../../../kube/status/node-state.ts';
import type { PodState } from '../../../../kube/status/pod-state.ts';
import { templateImage } from '../../../../mesh/injection-template.ts';
import { SIDECAR } from '../../../../model/declared-sidecar.ts';
import type { Manifest } from '../../../../model/manifest.ts';
import type { Node } from '../../../../model/node.ts';
import { actorOf } from '../../../../plans/acts.ts';
import { carryOutUnrecorded } from '../../../../plans/carry-out.ts';
import { isEmpty, renderPlan, stepLine } from '../../../../plans/plan.ts';
import { agentNodes } from '../../../../upgrade/cluster/agent-nodes.ts';
import { followingPods } from '../../../../upgrade/cluster/detect-installation.ts';
import { releaseIn } from '../../../../model/image-release.ts';
import {
  type AgentRelease,
  findSidecarRefusal,
  planSidecars,
  type SidecarFacts,
} from '../../../../upgrade/cluster/plan-sidecars.ts';
import { hasOlderSidecar, leftToUser } from '../../../../upgrade/cluster/sidecars.ts';
import type { SidecarWorkload } from '../../../../upgrade/cluster/snapshot.ts';
import { confirm, type ConfirmMode } from '../../cluster/confirm.ts';
import { podRun } from '../../cluster/node-pods.ts';
import { readMeshTemplates } from '../../mesh/read-mesh-templates.ts';
import type { Context, Status } from '../../ports.ts';
import { type UpgradeSession, withUpgrade } from '../open-upgrade.ts';
import { readSidecars } from '../read-mesh.ts';
import { readPods } from '../read-nodes.ts';
import { withUpgradeLease } from '../with-upgrade-lease.ts';
import { RESTART } from './restart-workload.ts';

export interface SidecarOptions {
  /** Undefined for all. */
  readonly namespace: string | undefined;
  /** Number of workloads that are restarted at the same time. */
  readonly atOnce: number;
  readonly mode: ConfirmMode;
}

const ACTS = { restart: RESTART };

/** Restarts the workloads whose pods have an older sidecar. What the pods show is the only record of what is done. */
export async function upgradeSidecars(context: Context, { namespace, atOnce, mode }: SidecarOptions): Promise<Status> {
  const { io } = context;
  const planIn = async (session: UpgradeSession) => {
    const facts = await readSidecarFacts(session, namespace);
    return { facts, plan: planSidecars(facts, VERSION, RESTART.text) };
  };
  return withUpgrade(context, async (open) => {
    const { facts, plan } = await planIn(open);
    io.stdout(`cluster: ${open.cluster}\n`);
    for (const note of plan.notes) io.stderr(`note: ${visibleText(note)}\n`);
    const where = namespace === undefined ? '' : ` in namespace ${namespace}`;
    io.stdout(isEmpty(plan) ? `no workload${where} has a ${SIDECAR} older than ${VERSION}\n` : renderPlan(plan));
    const [first] = plan.stages;
    const count = first?.steps.length ?? 0;
    if (count === 0) return 0;
    const refusal = findSidecarRefusal(facts, VERSION);
    if (refusal !== undefined) throw refusal;
    if (mode === 'dry-run') return 0;
    if (mode === 'ask' && !(await confirm(context, `Restart ${counted(count, 'workload')}?`))) return 1;
    return withUpgradeLease(open, async (session) => {
      const latest = await planIn(session);
      const late = findSidecarRefusal(latest.facts, VERSION);
      if (late !== undefined) throw late;
      const run = podRun(session.api, session.context);
      const broken = new Map<string, NetplugError>();
      const onLeft = (workload: ObjectReference, why: NetplugError): void => {
        broken.set(referenceKey(workload), why);
      };
      // What is left to the user was shown.
      const stages = latest.plan.stages.slice(0, 1);
      await carryOutUnrecorded(
        { ...latest.plan, stages },
        {
          actor: actorOf(ACTS, { run, target: { release: VERSION }, onLeft }),
          onStage: (title) => {
            io.stdout(`${title}\n`);
          },
          onStep: (step) => {
            if (step.kind === 'write' && !broken.has(referenceKey(step.workload))) io.stdout(stepLine(step));
          },
          atOnce,
          signal: session.context.signal,
        },
      );
      for (const why of broken.values()) io.stderr(`left as it is: ${visibleText(reasonAndRemedy(why))}\n`);
      if (broken.size < stages.flatMap(({ steps }) => steps).length) io.stdout(PROVEN);
      return broken.size === 0 ? 0 : 1;
    });
  });
}

/** What the API says of a sidecar, and what only the agent of its node knows. */
const PROVEN = `the new pods are ready: each ${SIDECAR} has the policies of its agent. Whether it guards its ports, the agent knows: "netplugctl node status" on the node of the pod\n`;

const READ_AT_ONCE = 8;

async function readSidecarFacts(
  { api, store, context: { signal } }: UpgradeSession,
  namespace: string | undefined,
): Promise<SidecarFacts> {
  const sidecars = await readSidecars(api, { namespace }, signal);
  const workloads = new Map<string, Manifest>();
  const restartable = (each: SidecarWorkload): boolean =>
    hasOlderSidecar(each, VERSION) && leftToUser(each, VERSION) === undefined;
  await forEachLimit(sidecars.filter(restartable), READ_AT_ONCE, async (sidecar) => {
    const object = await findObject(api, referenceTo(sidecar.kind, sidecar), signal);
    if (object !== undefined) workloads.set(referenceKey(sidecar), object);
  });
  const records = (await store.listResources('Node', signal)).resources;
  const agent = await findObject(api, systemObject('DaemonSet', AGENT_SET), signal);
  const nodes = agentNodes({
    nodes: await readNodes(api, signal),
    objects: agent === undefined ? [] : [agent],
  });
  const templates = await readMeshTemplates(api, { ifUnreadable: 'throw' }, signal);
  return {
    sidecars,
    workloads,
    templates: templates.map((each) => ({
      configMap: `${each.namespace}/${each.name}`,
      image: templateImage(each.text),
    })),
    agents: agentReleases(await readPods(api, signal), records, nodes),
  };
}

/**
 * Returns the release of the agent of each node: the image of its pod says what runs, the Node what has run or runs outside a pod.
 * Without a pod, only the `nodes` that are to have an agent count: a Node may be of a node that has none any more, or is gone.
 */
export function agentReleases(
  pods: readonly PodState[],
  records: readonly Node[],
  nodes: readonly Pick<NodeState, 'name'>[],
): readonly AgentRelease[] {
  const published = new Map(records.map(({ metadata, spec }) => [metadata.name, spec.netplugVersion]));
  const ofPods = followingPods(pods)
    .filter(({ component }) => component === AGENT_SET)
    .map(({ node, images: [image = ''] }) => ({ node, release: releaseIn(image) ?? published.get(node) }));
  const inPods = new Set(ofPods.map(({ node }) => node));
  const outside = nodes.flatMap(({ name: node }) => {
    const release = published.get(node);
    return inPods.has(node) || release === undefined ? [] : [{ node, release }];
  });
  return [...ofPods, ...outside];
}
