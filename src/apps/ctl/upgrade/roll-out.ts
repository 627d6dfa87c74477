import { isLeaving } from '../../../kube/objects.ts';
import { isNetplugError, NetplugError, reasonOf } from '../../../base/errors.ts';
import { AGENT_SET, systemObject } from '../../../install/cluster/names.ts';
import { HOLD_AGENTS, INSTALLATION_NAME } from '../../../model/installation.ts';
import { annotate, applyRelease, areApplied, findObject, tryMerge } from '../../../kube/objects/apply.ts';
import { referenceOf, referenceTo } from '../../../kube/objects/reference.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { runsOn, triedFirst } from '../../../upgrade/cluster/agent-nodes.ts';
import { detectInstallation } from '../../../upgrade/cluster/detect-installation.ts';
import { isOnDelete } from '../../../upgrade/cluster/held-agents.ts';
import { releaseIn } from '../../../model/image-release.ts';
import { containersIn, recordIn, textIn } from '../../../upgrade/cluster/objects-in.ts';
import { isWithoutImage, podState, type PodState } from '../../../kube/status/pod-state.ts';
import type { UpgradeAction } from '../../../upgrade/cluster/upgrade-action.ts';
import { agentErrors, withReported } from '../cluster/agent-errors.ts';
import { imageWatch, type PodRun, SYSTEM_PODS } from '../cluster/node-pods.ts';
import { proveNetwork } from '../cluster/prove-network.ts';
import { waitForWorkload, workloadLag } from '../cluster/wait-ready.ts';
import { type WaitState, waitUntil } from '../cluster/wait-until.ts';
import { readNodes } from '../../../kube/status/node-state.ts';
import { readPods } from './read-nodes.ts';
import { proofOf } from './proof.ts';
import type { UpgradeRun } from './upgrade-run.ts';
import { expectNoLosses } from './watch-packets.ts';

/** Nodes that prove their network with the first one: those still have the old release. */
const COMPANIONS = 2;
const RELEASED = `a user or another program has removed the annotation ${HOLD_AGENTS} of the Installation`;
const INSTALLATION = referenceTo('Installation', { name: INSTALLATION_NAME });
const AGENTS = systemObject('DaemonSet', AGENT_SET);

/** Returns the image of a workload's main container. */
export function mainImage(workload: Manifest): string {
  return textIn(containersIn(workload)[0] ?? {}, 'image');
}

/** Reports whether the DaemonSet is as given, and every one of its pods has followed. @throws store/* */
export async function isRolledOut(run: PodRun, agent: Manifest): Promise<boolean> {
  const found = await findObject(run.api, referenceOf(agent), run.signal);
  return found !== undefined && workloadLag(found) === undefined && areApplied(run.api, [agent], run.signal);
}

export async function rollOut(run: PodRun, agent: Manifest): Promise<void> {
  await applyRelease(run.api, agent, run.signal);
  await waitForWorkload(run, { kind: 'DaemonSet', name: AGENT_SET });
}

/**
 * Gives one node the new agent and has it prove the network with nodes that have the old one. No other node is touched: the
 * DaemonSet does not replace pods by itself until the roll-out. @throws upgrade/not-verified
 */
export async function tryCanary(
  parts: UpgradeRun,
  { node: planned, agent, heldBy }: UpgradeAction & { readonly act: 'canary' },
): Promise<void> {
  const { session, run, target, proof, snapshot } = parts;
  if (heldBy === 'tool') {
    await holdAgents(run);
    const held = { ...agent, spec: { ...recordIn(agent, 'spec'), updateStrategy: { type: 'OnDelete' } } };
    await applyRelease(run.api, held, run.signal);
  }
  const image = heldBy === 'tool' ? mainImage(agent) : await heldImage(run, target.release);
  const ready = triedFirst(await readNodes(run.api, run.signal))
    .filter((each) => runsOn(agent, each))
    .map((each) => each.name);
  // The one that was planned may have failed since.
  const [node = planned] = ready.includes(planned) ? [planned] : ready;
  await replacePod(run, { node, image, release: target.release });
  if (proof === 'skip') return;
  const upgraded = await nodesWith(run, target.release);
  const others = ready
    .filter((each) => each !== node)
    .sort((a, b) => Number(upgraded.includes(a)) - Number(upgraded.includes(b)));
  try {
    const wanted = await proofOf(session, { snapshot, target });
    await proveNetwork(run, { ...wanted, nodes: [node, ...others.slice(0, COMPANIONS)] });
    await expectNoLosses(run);
    await refuseLetGo(run, heldBy);
  } catch (cause) {
    if (!(cause instanceof NetplugError)) throw cause;
    if (!run.signal.aborted) {
      await holdAgentsBack(parts).catch((failure: unknown) => {
        run.onProgress(`the agents of other nodes are not held: ${reasonOf(failure)}`);
      });
    }
    const reached = await nodesWith(run, target.release).catch(() => upgraded);
    throw new NetplugError(
      isNetplugError(cause, 'upgrade/packets-lost') ? cause.code : 'upgrade/not-verified',
      `Stopped after node "${node}": ${cause.message}; nodes with ${target.release}: ${reached.join(', ')}`,
      {
        hint: 'Correct the cause and run the command again, or go back with "netplugctl upgrade rollback"',
        facts: { node },
        cause,
      },
    );
  }
}

/** @throws upgrade/not-verified when the agents of other nodes were no longer held while one proved its network */
async function refuseLetGo(run: PodRun, heldBy: 'tool' | 'operator'): Promise<void> {
  const found = await findObject(run.api, AGENTS, run.signal);
  const isLetGo = found === undefined || !isOnDelete(found);
  if (!isLetGo && (heldBy === 'tool' || (await areHeld(run)))) return;
  const why = heldBy === 'tool' ? `a user or another program has changed DaemonSet ${AGENT_SET}` : RELEASED;
  throw new NetplugError('upgrade/not-verified', `${why} while the node was tried`);
}

/** Keeps more nodes from following. An operator may be down, or one that does not know the annotation. */
export async function holdAgentsBack({ run, snapshot, target }: UpgradeRun): Promise<void> {
  const { api, signal } = run;
  const isOperated = detectInstallation(snapshot).method !== 'manifest';
  if (isOperated && (await findObject(api, INSTALLATION, signal)) !== undefined)
    await annotateHold(run, target.release);
  if (await holdAgents(run)) run.onProgress('the DaemonSet of the agent is held: nodes with the old release keep it');
}

/** Returns the nodes whose agent has the release. */
async function nodesWith({ api, signal }: PodRun, release: string): Promise<readonly string[]> {
  return (await readPods(api, signal))
    .filter(({ component, images: [own = ''] }) => component === AGENT_SET && releaseIn(own) === release)
    .map(({ node }) => node)
    .sort();
}

/** Holds the agents of an operator, or lets go of them. */
export async function annotateHold(
  { api, signal }: Pick<PodRun, 'api' | 'signal'>,
  hold: string | null,
): Promise<void> {
  await annotate(api, { which: INSTALLATION, annotations: { [HOLD_AGENTS]: hold } }, signal);
}

/** Reports whether the Installation has the annotation that holds the agents. */
export async function areHeld({ api, signal }: Pick<PodRun, 'api' | 'signal'>): Promise<boolean> {
  const found = await findObject(api, INSTALLATION, signal);
  return HOLD_AGENTS in (found?.metadata.annotations ?? {});
}

/** Waits until the operator has written the DaemonSet of the release, which holds its pods, and returns the image of the agent. */
async function heldImage(run: PodRun, release: string): Promise<string> {
  const { api, signal } = run;
  const look = async (): Promise<WaitState<string>> => {
    const found = await findObject(api, AGENTS, signal);
    const image = found === undefined ? '' : mainImage(found);
    if (found !== undefined && releaseIn(image) === release && isOnDelete(found)) return { found: image };
    if (!(await areHeld({ api, signal })))
      throw new NetplugError('upgrade/not-verified', `Stopped before the first node: ${RELEASED}`, {
        hint: 'Find out what removes it, and run the command again, or go back with "netplugctl upgrade rollback"',
      });
    return {
      open: `waiting until the operator holds the agents: ${image === '' ? `no DaemonSet ${AGENT_SET}` : image}`,
    };
  };
  return waitUntil(
    run,
    look,
    (open) =>
      new NetplugError('upgrade/not-verified', `Stopped before the first node: ${open}`, {
        hint: 'See "kubectl describe installation default" and the log of the operator; then run the command again',
      }),
  );
}

/** Keeps the DaemonSet from replacing agents by itself. Returns false when there is none. */
async function holdAgents({ api, signal }: Pick<PodRun, 'api' | 'signal'>): Promise<boolean> {
  // Applied alone, the type would contradict the parameters of a rolling update that another manager owns.
  const body = { spec: { updateStrategy: { type: 'OnDelete', rollingUpdate: null } } };
  return (await tryMerge(api, { which: AGENTS, body }, signal)).outcome === 'ok';
}

async function replacePod(
  run: PodRun,
  { node, image, release }: { readonly node: string; readonly image: string; readonly release: string },
): Promise<void> {
  const { api, clock, signal } = run;
  const reportedError = agentErrors(run, release);
  const labelSelector = `app.kubernetes.io/name=${AGENT_SET}`;
  const refuseWithoutImage = imageWatch(clock);
  let isStuckReplaced = false;
  const look = async (): Promise<WaitState<undefined>> => {
    const all = await api.list(SYSTEM_PODS, { labelSelector, fieldSelector: `spec.nodeName=${node}` }, signal);
    const states = all.filter((pod) => !isLeaving(pod)).map(podState);
    // One of an earlier call may wait for an image from another registry. It is replaced once: a webhook may rewrite every image.
    const stuck = states.find(isWithoutImage)?.name;
    const old = states.find(
      (state) => !hasImage(state, image) || (state.name === stuck && state.images[0] !== image && !isStuckReplaced),
    );
    if (old !== undefined) {
      await api.delete({ collection: SYSTEM_PODS, name: old.name, preconditions: {} }, signal);
      isStuckReplaced ||= old.name === stuck;
    }
    const fresh = states.find((state) => hasImage(state, image));
    if (old === undefined && fresh !== undefined && fresh.phase === 'ready') return { found: undefined };
    refuseWithoutImage(states);
    const lag = fresh === undefined ? 'waiting for its new agent' : `${fresh.name}: ${fresh.reason ?? ''}`;
    return { open: withReported(`node ${node}: ${lag}`, await reportedError()) };
  };
  await waitUntil(
    run,
    look,
    (open) =>
      new NetplugError('upgrade/not-verified', `Stopped at ${open}; the other nodes have the old release`, {
        hint: `See "kubectl -n netplug-system get pods -o wide"; correct the cause and run the command again, or go back with "netplugctl upgrade rollback"`,
        facts: { node },
      }),
  );
}

/** A webhook may have pods pull the release from elsewhere. */
function hasImage({ images: [own = ''] }: PodState, image: string): boolean {
  const release = releaseIn(image);
  return own === image || (release !== undefined && releaseIn(own) === release);
}
