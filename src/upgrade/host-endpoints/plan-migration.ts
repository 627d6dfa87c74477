import { ownValue } from '../../base/own-value.ts';
import { type Problem, problemsError } from '../../base/problem.ts';
import { automaticName, CONTROLLERS, isAutomatic } from '../../model/automatic-host-endpoint.ts';
import type { ControllersConfiguration } from '../../model/controllers-configuration.ts';
import type { HostEndpoint } from '../../model/host-endpoint.ts';
import type { Node } from '../../model/node.ts';
import { DEFAULT_ALLOW } from '../../model/profile.ts';
import { API_VERSION } from '../../model/resource.ts';
import { userCreated } from './all-interfaces.ts';
import { createStep, deleteStep, type ResourcePlan, type ResourceStep, updateStep } from '../resource-steps.ts';

type Labels = Readonly<Record<string, string>>;

export interface MigrationFacts {
  readonly endpoints: readonly HostEndpoint[];
  readonly nodes: readonly Node[];
  readonly configuration: ControllersConfiguration | undefined;
}

export interface MigrationOptions {
  /** The label of an upgrade, which does not go onto nodes. */
  readonly upgradeLabel: string;
  /** Manager of the nodes and their labels. */
  readonly nodeManager: 'netplug' | 'orchestrator';
  /** Whether old endpoints go only once the automatic one of their node is there. */
  readonly removal: 'when-replaced' | 'at-once';
}

/**
 * From endpoints for all interfaces that people made to automatic ones. Nothing they say may be lost.
 * @throws resource/invalid when labels contradict one another, or a node is not there
 */
export function planMigration(facts: MigrationFacts, options: MigrationOptions): ResourcePlan {
  const old = userCreated(facts.endpoints);
  const problems: Problem[] = [];
  const wanted = labelsByNode(old, options.upgradeLabel, problems);
  const copies = [...wanted].flatMap(([node, labels]) => copySteps({ node, labels, facts, options }, problems));
  if (problems.length > 0) throw problemsError('the labels of the host endpoints', problems, 'resource/invalid');
  return {
    stages: [
      { title: 'Copy the labels of the host endpoints onto their nodes', steps: copies },
      { title: 'Let the controllers make automatic host endpoints', steps: enableSteps(old, facts.configuration) },
      {
        title: 'Delete the old host endpoints',
        steps: old.map((endpoint) => removalStep(endpoint, { wanted, facts, options })),
      },
    ],
    notes: old.flatMap(lostBesides),
  };
}

/** Returns the labels of all old endpoints of each node together. */
function labelsByNode(
  old: readonly HostEndpoint[],
  upgradeLabel: string,
  problems: Problem[],
): ReadonlyMap<string, Labels> {
  const byNode = new Map<string, Map<string, string>>();
  for (const { metadata, spec } of old) {
    const labels = byNode.get(spec.node) ?? new Map<string, string>();
    byNode.set(spec.node, labels);
    for (const [key, value] of Object.entries(metadata.labels ?? {})) {
      if (key === upgradeLabel) continue;
      const other = labels.get(key);
      if (other !== undefined && other !== value)
        problems.push(
          problem(
            `HostEndpoint "${metadata.name}"`,
            `label ${key} is "${value}", and "${other}" at another one of node "${spec.node}"`,
          ),
        );
      labels.set(key, value);
    }
  }
  return new Map([...byNode].map(([node, labels]) => [node, Object.fromEntries(labels)]));
}

interface Copy {
  readonly node: string;
  readonly labels: Labels;
  readonly facts: MigrationFacts;
  readonly options: MigrationOptions;
}

function copySteps({ node: name, labels, facts, options }: Copy, problems: Problem[]): ResourceStep[] {
  const node = facts.nodes.find(({ metadata }) => metadata.name === name);
  if (node === undefined) {
    const message = `there is no node "${name}", and so no automatic host endpoint would replace what it has`;
    for (const { metadata, spec } of userCreated(facts.endpoints))
      if (spec.node === name) problems.push(problem(`HostEndpoint "${metadata.name}"`, message));
    return [];
  }
  const there = node.metadata.labels ?? {};
  for (const [key, value] of Object.entries(labels)) {
    const other = ownValue(there, key);
    if (other === undefined || other === value) continue;
    problems.push(problem(`Node "${name}"`, `label ${key} is "${other}" there, and "${value}" at its host endpoint`));
  }
  const missing = Object.entries(labels).filter(([key]) => ownValue(there, key) === undefined);
  if (missing.length === 0) return [];
  const pairs = missing.map(([key, value]) => `${key}=${value}`);
  const after: Node = { ...node, metadata: { ...node.metadata, labels: { ...there, ...Object.fromEntries(missing) } } };
  const step = updateStep(node, after, `label ${pairs.join(' ')}`);
  return options.nodeManager === 'netplug'
    ? [step]
    : [{ ...step, kind: 'command', command: ['kubectl', 'label', 'node', name, ...pairs] }];
}

function enableSteps(
  old: readonly HostEndpoint[],
  configuration: ControllersConfiguration | undefined,
): ResourceStep[] {
  const { controllers } = configuration?.spec ?? {};
  if (old.length === 0 || controllers?.node?.hostEndpoint?.autoCreate === 'Enabled') return [];
  const hostEndpoint = { ...controllers?.node?.hostEndpoint, autoCreate: 'Enabled' } as const;
  const spec = {
    ...configuration?.spec,
    controllers: { ...controllers, node: { ...controllers?.node, hostEndpoint } },
  };
  if (configuration !== undefined)
    return [
      updateStep(configuration, { ...configuration, spec }, 'spec.controllers.node.hostEndpoint.autoCreate = Enabled'),
    ];
  return [
    createStep({ apiVersion: API_VERSION, kind: 'ControllersConfiguration', metadata: { name: 'default' }, spec }),
  ];
}

function removalStep(
  endpoint: HostEndpoint,
  { wanted, facts, options }: { wanted: ReadonlyMap<string, Labels>; facts: MigrationFacts; options: MigrationOptions },
): ResourceStep {
  const { node } = endpoint.spec;
  const labels = wanted.get(node) ?? {};
  const isReplaced = facts.endpoints.some(
    (other) => isAutomatic(other) && other.spec.node === node && hasLabels(other.metadata.labels ?? {}, labels),
  );
  if (isReplaced || options.removal === 'at-once') return deleteStep(endpoint);
  const what = `HostEndpoint "${automaticName(node)}"`;
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  const likeness = pairs.length === 0 ? '' : ` with the labels ${pairs.join(' ')}`;
  return {
    kind: 'wait',
    text: `HostEndpoint "${endpoint.metadata.name}" stays until ${CONTROLLERS} has made ${what}${likeness}`,
  };
}

/** Returns the properties of an old endpoint that no automatic one has. */
function lostBesides({ metadata, spec }: HostEndpoint): string[] {
  const ports = (spec.ports ?? []).map(({ name }) => name);
  const profiles = (spec.profiles ?? []).filter((profile) => profile !== DEFAULT_ALLOW.metadata.name);
  const lost = [
    ...(ports.length === 0 ? [] : [`the names of ports ${ports.join(', ')}`]),
    ...(profiles.length === 0 ? [] : [`the profiles ${profiles.join(', ')}`]),
  ];
  if (lost.length === 0) return [];
  return [
    `Automatic host endpoints do not carry these fields of HostEndpoint "${metadata.name}": ${lost.join(' and ')}`,
  ];
}

function hasLabels(there: Labels, wanted: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => ownValue(there, key) === value);
}

function problem(path: string, message: string): Problem {
  return { path, message, code: 'resource/invalid' };
}
