import { isDeepStrictEqual } from 'node:util';
import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { AGENT_SET } from '../../../install/cluster/names.ts';
import { type ClusterObject, INSTALL_NAMESPACE } from '../../../install/cluster/objects.ts';
import { agentNodes, runsOn } from '../../../upgrade/cluster/agent-nodes.ts';
import { containersIn, recordIn, textIn } from '../../../upgrade/cluster/objects-in.ts';
import type { PodSnapshot } from '../../../upgrade/cluster/snapshot.ts';
import { objectContent, findObject, locate } from '../cluster/api-objects.ts';
import { type PodRun, SYSTEM_PODS } from '../cluster/node-pods.ts';
import { proveNetwork } from '../cluster/prove-network.ts';
import { waitForWorkload, workloadLag } from '../cluster/wait-ready.ts';
import { applyRelease } from './apply-objects.ts';
import { isLeaving, podOf, readNodes } from './read-nodes.ts';
import { proofOf } from './proof.ts';
import type { UpgradeRun } from './upgrade-actor.ts';
import { settleFlow } from './watch-packets.ts';

const POLL_MS = 1000;
/** Nodes that prove their network with the first one: those still have the old release. */
const COMPANIONS = 2;

/** Returns the image of a workload's main container. */
export function mainImage(workload: ClusterObject): string {
  return textIn(containersIn(workload)[0] ?? {}, 'image');
}

/** Reports whether the DaemonSet is as given, and every one of its pods has followed. @throws store/* */
export async function isRolledOut(run: PodRun, agent: ClusterObject): Promise<boolean> {
  const found = await findObject(run.api, locate(agent), run.signal);
  if (found === undefined || workloadLag(found) !== undefined) return false;
  const { after } = await applyRelease(run.api, { object: agent, mode: 'rehearse' }, run.signal);
  return isDeepStrictEqual(objectContent(found), objectContent(after));
}

export async function rollOut(run: PodRun, agent: ClusterObject): Promise<void> {
  await applyRelease(run.api, { object: agent }, run.signal);
  await waitForWorkload(run, { kind: 'DaemonSet', name: AGENT_SET });
}

/**
 * Gives one node the new agent and has it prove the network with nodes that have the old one. No other node is touched: the
 * DaemonSet does not replace pods by itself until the roll-out. @throws upgrade/not-verified
 */
export async function tryCanary(
  { session, run, target, proof, snapshot }: UpgradeRun,
  { node, agent }: { readonly node: string; readonly agent: ClusterObject },
): Promise<void> {
  await holdAgents(run);
  const held = { ...agent, spec: { ...recordIn(agent, 'spec'), updateStrategy: { type: 'OnDelete' } } };
  await applyRelease(run.api, { object: held }, run.signal);
  await replacePod(run, { node, image: mainImage(agent) });
  if (proof === 'skip') return;
  const ready = (await readNodes(run.api, run.signal)).filter(
    (each) => each.isReady && each.isSchedulable && runsOn(agent, each),
  );
  const others = ready.map((each) => each.name).filter((each) => each !== node);
  try {
    const wanted = await proofOf(session, { snapshot, target });
    await proveNetwork(run, { ...wanted, nodes: [node, ...others.slice(0, COMPANIONS)] });
    await settleFlow(run);
  } catch (cause) {
    if (!(cause instanceof NetplugError)) throw cause;
    throw new NetplugError(
      isNetplugError(cause, 'upgrade/packets-lost') ? cause.code : 'upgrade/not-verified',
      `Stopped after node "${node}": ${cause.message}; the other ${String(agentNodes(snapshot).length - 1)} nodes have the old release`,
      {
        hint: 'Correct the cause and run the command again, or go back with "netplugctl upgrade rollback"',
        facts: { node },
        cause,
      },
    );
  }
}

/** Keeps the DaemonSet from replacing agents by itself. */
export async function holdAgents({ api, signal }: Pick<PodRun, 'api' | 'signal'>): Promise<void> {
  // Applied alone, the type would contradict the parameters of a rolling update that another manager owns.
  const body = { spec: { updateStrategy: { type: 'OnDelete', rollingUpdate: null } } };
  const object: ClusterObject = {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: AGENT_SET, namespace: INSTALL_NAMESPACE },
  };
  const { collection, name } = locate(object);
  await api.patch({ collection, name }, { kind: 'merge', body }, signal);
}

async function replacePod(
  run: PodRun,
  { node, image }: { readonly node: string; readonly image: string },
): Promise<void> {
  const { api, clock, signal } = run;
  const labelSelector = `app.kubernetes.io/name=${AGENT_SET}`;
  let said = '';
  for (;;) {
    const all = await api.list(SYSTEM_PODS, { labelSelector, fieldSelector: `spec.nodeName=${node}` }, signal);
    const pods = all.filter(({ metadata }) => !isLeaving(metadata));
    const states = pods.map(podOf);
    const old = states.find(({ images }) => images[0] !== image);
    if (old !== undefined) {
      await api.delete({ collection: SYSTEM_PODS, name: old.name, preconditions: {} }, signal);
    }
    const fresh = states.find(({ images }) => images[0] === image);
    if (old === undefined && fresh !== undefined && isReady(fresh)) return;
    const line = fresh === undefined ? 'waiting for its new agent' : lineOf(fresh);
    if (line !== said) run.onProgress(`node ${node}: ${line}`);
    said = line;
    await clock.sleep(POLL_MS, signal).catch(() => {
      throw new NetplugError(
        'upgrade/not-verified',
        `Stopped at node "${node}": ${line}; the other nodes have the old release`,
        {
          hint: `See "kubectl -n netplug-system get pods -o wide"; correct the cause and run the command again, or go back with "netplugctl upgrade rollback"`,
          facts: { node },
        },
      );
    });
  }
}

export function isReady({ ready, containers, phase }: PodSnapshot): boolean {
  return phase === 'Running' && ready === containers;
}

function lineOf({ name, ready, containers, waiting }: PodSnapshot): string {
  return `${name}: ${String(ready)} of ${String(containers)} containers ready${waiting[0] === undefined ? '' : ` (${waiting[0]})`}`;
}
