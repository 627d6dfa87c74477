import type { AnyResource } from '../../../../model/kinds.ts';
import type { GlobalNetworkSet, NetworkSet } from '../../../../model/network-set.ts';
import type { Entity, Rule } from '../../../../model/policy-rule.ts';
import type { PolicyChange } from '../../../../policy/policy-change.ts';

/** Ports and networks of rules that take as long as a record without any. */
const ENTRIES = 200;
/** The same of a network set: each of its networks is placed among all that a selector finds. */
const NETS = 20;

/** Returns for how many small records a record counts when it is applied. */
export function weightOfRecord(record: PolicyChange): number {
  const isSet = record.kind === 'resource' && isNetworkSet(record.value);
  return 1 + Math.floor(entriesOfChange(record) / (isSet ? NETS : ENTRIES));
}

/** Returns how many rules, ports and networks the record has after the change. */
export function entriesOfChange(change: PolicyChange): number {
  const value = change.kind === 'resource' ? change.value : undefined;
  if (isNetworkSet(value)) return value.spec.nets.length;
  if (value?.kind !== 'NetworkPolicy' && value?.kind !== 'GlobalNetworkPolicy' && value?.kind !== 'Profile') return 0;
  const rules: readonly Rule[] = [...(value.spec.ingress ?? []), ...(value.spec.egress ?? [])];
  return rules.reduce((sum, { source, destination }) => sum + 1 + sizeOf(source) + sizeOf(destination), 0);
}

function isNetworkSet(value: AnyResource | undefined): value is NetworkSet | GlobalNetworkSet {
  return value?.kind === 'NetworkSet' || value?.kind === 'GlobalNetworkSet';
}

function sizeOf({ nets = [], notNets = [], ports = [], notPorts = [] }: Entity = {}): number {
  return nets.length + notNets.length + ports.length + notPorts.length;
}
