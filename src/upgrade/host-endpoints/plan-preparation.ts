import { isDeepStrictEqual } from 'node:util';
import { ownValue } from '../../base/own-value.ts';
import { NetplugError } from '../../base/errors.ts';
import type { HostEndpoint } from '../../model/host-endpoint.ts';
import type { GlobalNetworkPolicy } from '../../model/policy.ts';
import { API_VERSION } from '../../model/resource.ts';
import { userCreated } from './all-interfaces.ts';
import { createStep, deleteStep, type ResourcePlan, updateStep } from '../resource-steps.ts';

/** Names on which the two sides of the procedure agree. */
export interface UpgradeNames {
  readonly label: string;
  readonly policy: string;
}

export interface PreparationFacts {
  readonly endpoints: readonly HostEndpoint[];
  /** The policy of that name, if there is one. */
  readonly policy: GlobalNetworkPolicy | undefined;
}

/** The step before an upgrade from before v3.14: nothing that gets through these endpoints now is dropped after it. */
export function planPreparation({ endpoints, policy }: PreparationFacts, names: UpgradeNames): ResourcePlan {
  const temporary = temporaryPolicy(names);
  if (policy !== undefined) assertOurs(policy, temporary);
  const unlabelled = userCreated(endpoints).filter(
    ({ metadata }) => ownValue(metadata.labels, names.label) === undefined,
  );
  return {
    stages: [
      {
        title: 'Label the host endpoints for all interfaces',
        steps: unlabelled.map((endpoint) =>
          updateStep(
            endpoint,
            withLabels(endpoint, { ...endpoint.metadata.labels, [names.label]: '' }),
            `label ${names.label}=`,
          ),
        ),
      },
      {
        title: 'Create the temporary log-and-allow policy',
        steps: policy === undefined ? [createStep(temporary)] : [],
      },
    ],
    notes: [],
  };
}

/** The end of the procedure, after the logs are read and the policies that are needed are there. */
export function planUndo({ endpoints, policy }: PreparationFacts, names: UpgradeNames): ResourcePlan {
  if (policy !== undefined) assertOurs(policy, temporaryPolicy(names));
  const labelled = endpoints.filter(({ metadata }) => ownValue(metadata.labels, names.label) === '');
  return {
    stages: [
      { title: 'Delete the temporary policy', steps: policy === undefined ? [] : [deleteStep(policy)] },
      {
        title: 'Remove the upgrade label',
        steps: labelled.map((endpoint) => {
          const { [names.label]: _, ...labels } = endpoint.metadata.labels ?? {};
          return updateStep(endpoint, withLabels(endpoint, labels), `drop label ${names.label}`);
        }),
      },
    ],
    notes: [],
  };
}

/** Returns the temporary policy that logs and allows all traffic (map: up-hostendpoints). */
export function temporaryPolicy({ label, policy }: UpgradeNames): GlobalNetworkPolicy {
  const rules = [{ action: 'Log' }, { action: 'Allow' }] as const;
  return {
    apiVersion: API_VERSION,
    kind: 'GlobalNetworkPolicy',
    metadata: { name: policy },
    spec: { selector: `has(${label})`, types: ['Ingress', 'Egress'], ingress: rules, egress: rules },
  };
}

/** @throws resource/exists */
function assertOurs(found: GlobalNetworkPolicy, temporary: GlobalNetworkPolicy): void {
  // Through JSON, because an absent field and an undefined one are the same to the datastore.
  if (isDeepStrictEqual(JSON.parse(JSON.stringify(found.spec)), temporary.spec)) return;
  const { name } = found.metadata;
  throw new NetplugError(
    'resource/exists',
    `Cannot use GlobalNetworkPolicy "${name}" as the temporary policy: it exists with a different spec`,
    { hint: 'Choose another name with --policy, or delete it if it is not needed', facts: { name } },
  );
}

function withLabels(endpoint: HostEndpoint, labels: Readonly<Record<string, string>>): HostEndpoint {
  return { ...endpoint, metadata: { ...endpoint.metadata, labels } };
}
