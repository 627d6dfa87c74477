import type { PolicyRecord } from '../../../../cache/policy-records.ts';
import type { Entity, Rule } from '../../../../model/policy-rule.ts';

/** Ports and networks that take as long as a record without any. */
const ENTRIES = 200;

/** Returns for how many small records a record counts when it is applied. */
export function weightOfRecord(record: PolicyRecord): number {
  const value = record.kind === 'resource' ? record.value : undefined;
  if (value?.kind === 'NetworkSet' || value?.kind === 'GlobalNetworkSet')
    return 1 + Math.floor(value.spec.nets.length / ENTRIES);
  if (value?.kind !== 'NetworkPolicy' && value?.kind !== 'GlobalNetworkPolicy' && value?.kind !== 'Profile') return 1;
  const rules: readonly Rule[] = [...(value.spec.ingress ?? []), ...(value.spec.egress ?? [])];
  const entries = rules.reduce((sum, { source, destination }) => sum + 1 + sizeOf(source) + sizeOf(destination), 0);
  return 1 + Math.floor(entries / ENTRIES);
}

function sizeOf({ nets = [], notNets = [], ports = [], notPorts = [] }: Entity = {}): number {
  return nets.length + notNets.length + ports.length + notPorts.length;
}
