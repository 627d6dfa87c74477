import type { Manifest } from '../../model/manifest.ts';
import { AGENT_SET } from '../../install/cluster/names.ts';
import { HOLD_AGENTS, INSTALLATION_NAME } from '../../model/installation.ts';
import type { Step } from '../../plans/plan.ts';
import { agentNodes, triedFirst } from './agent-nodes.ts';
import { findNamed } from './objects-in.ts';
import { type PlanFacts, type UpgradeStage, writeStep } from './plan-steps.ts';
import type { UpgradeStepData } from './upgrade-action.ts';

/** A DaemonSet replaces one agent at a time; a new one takes over beside the old one. */
const ROLL_OUT_SECONDS_PER_NODE = 20;
const TRY_TITLE = 'Try one node';

/** One node gets the new agent and proves its network, then the others follow. */
export function agentStages(facts: PlanFacts, agent: Manifest): readonly UpgradeStage[] {
  const { snapshot } = facts;
  const nodes = agentNodes(snapshot).length;
  const minutes = Math.ceil((nodes * ROLL_OUT_SECONDS_PER_NODE) / 60);
  const rollOut = writeStep(facts, {
    act: 'roll-out',
    agent,
    nodes,
    id: 'roll-out',
    commands: [
      `kubectl rollout status daemonset/${AGENT_SET} -n netplug-system --timeout=${String(Math.max(10, 3 * minutes))}m`,
    ],
    downtime: `none for pods and calls; about ${String(minutes)} minutes in all`,
  });
  const hold = `kubectl patch daemonset ${AGENT_SET} -n netplug-system --type merge -p '{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}'`;
  return [
    { title: TRY_TITLE, steps: canarySteps(facts, { agent, by: 'tool', commands: [hold] }) },
    { title: 'Roll out the agent', steps: [rollOut] },
  ];
}

/** Returns stages as with a manifest, around those that bring the operator, which an annotation makes hold the agents. */
export function operatorStages(facts: PlanFacts, bring: UpgradeStage): readonly UpgradeStage[] {
  const { snapshot, target } = facts;
  const objects = target.stages.flatMap((stage) => stage.objects);
  const agent = findNamed(objects, 'DaemonSet', AGENT_SET);
  const hasInstallation = findNamed(snapshot.objects, 'Installation', INSTALLATION_NAME) !== undefined;
  const tries =
    agent === undefined || !hasInstallation ? [] : canarySteps(facts, { agent, by: 'operator', commands: [] });
  const annotate = `kubectl annotate installation ${INSTALLATION_NAME}`;
  const hold = writeStep(facts, {
    act: 'hold-agents',
    id: 'hold-agents',
    commands: [`${annotate} ${HOLD_AGENTS}=${target.release}`],
  });
  const wait = writeStep(facts, {
    act: 'await-operator',
    release: target.release,
    id: 'operator-rollout',
    commands: [
      ...(tries.length === 0 ? [] : [`${annotate} ${HOLD_AGENTS}-`]),
      `kubectl wait installation ${INSTALLATION_NAME} --for=condition=Progressing=False --timeout=30m`,
    ],
  });
  return [
    { ...bring, steps: [...(tries.length === 0 ? [] : [hold]), ...bring.steps] },
    { title: TRY_TITLE, steps: tries },
    { title: 'Wait for the operator', steps: [wait] },
  ];
}

/** None where no node can be tried. */
function canarySteps(
  facts: PlanFacts,
  {
    agent,
    by,
    commands,
  }: { readonly agent: Manifest; readonly by: 'tool' | 'operator'; readonly commands: readonly string[] },
): readonly Step<UpgradeStepData>[] {
  const [canary] = triedFirst(agentNodes(facts.snapshot));
  if (canary === undefined) return [];
  return [
    writeStep(facts, {
      act: 'canary',
      node: canary.name,
      agent,
      heldBy: by,
      id: 'canary',
      commands: [
        ...commands,
        `kubectl delete pod -n netplug-system -l app.kubernetes.io/name=${AGENT_SET} --field-selector spec.nodeName=${canary.name}`,
      ],
      downtime: 'none: the program without an agent serves calls on that node meanwhile',
    }),
  ];
}
