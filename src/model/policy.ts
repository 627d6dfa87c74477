import * as v from 'valibot';
import { field, listOf, optionalField, oneOf } from './field.ts';
import { checkRules, RULE_RULES } from './check-rules.ts';
import {
  type Column,
  jointRules,
  type KindDeclaration,
  nameColumn,
  namespaceColumn,
  type Refuse,
  wide,
} from './kind-info.ts';
import { type Rule, Rules } from './policy-rule.ts';
import { EndpointSelector, RuleSelector } from './policy-selectors.ts';
import { TrueOrFalse } from './spec-types.ts';
import type { PartialOutput } from './read-schema.ts';
import type { Resource } from './resource.ts';

const PolicyType = oneOf(['Ingress', 'Egress']);
export type PolicyType = v.InferOutput<typeof PolicyType>;

export const POLICY_FIELDS = {
  order: optionalField(v.number('a number'), 'Policies of lower order come first; those without an order come last.'),
  selector: field(v.optional(EndpointSelector, 'all()'), 'Labels of the endpoints to which the policy applies.'),
  serviceAccountSelector: optionalField(RuleSelector, 'Labels of the service accounts of those pods.'),
  types: optionalField(
    v.pipe(
      v.array(PolicyType, 'an array of "Ingress" and "Egress"'),
      v.check((types) => new Set(types).size === types.length, 'each type at most once'),
      v.readonly(),
    ),
    'Directions to which the policy applies; unless set, those that have rules, or `Ingress` without rules.',
  ),
  ingress: optionalField(Rules, 'Rules for incoming traffic; the first matching rule decides.'),
  egress: optionalField(Rules, 'Rules for outgoing traffic; the first matching rule decides.'),
  staged: optionalField(
    TrueOrFalse,
    'Evaluated, counted and listed by `netplugctl policy denied --staged`, and not enforced; false unless set.',
  ),
  performanceHints: optionalField(
    listOf(oneOf(['AssumeNeededOnEveryNode']), 'an array of strings'),
    'Hints how nodes prepare for the policy.',
  ),
};

const GLOBAL_FIELDS = {
  ...POLICY_FIELDS,
  namespaceSelector: optionalField(RuleSelector, 'Labels of the namespaces to whose pods the policy applies.'),
  doNotTrack: optionalField(TrueOrFalse, 'Applies before connection tracking, at host endpoints; false unless set.'),
  preDNAT: optionalField(TrueOrFalse, 'Applies before destination translation, at host endpoints; false unless set.'),
  applyOnForward: optionalField(
    TrueOrFalse,
    'Also applies to traffic that a host endpoint forwards; false unless set.',
  ),
};

type Written<E extends v.ObjectEntries> = v.InferOutput<v.ObjectSchema<E, undefined>>;
type Completed<S> = Readonly<Omit<S, 'types'>> & { readonly types: readonly PolicyType[] };
export type NetworkPolicySpec = Completed<Written<typeof POLICY_FIELDS>>;
export type GlobalNetworkPolicySpec = Completed<Written<typeof GLOBAL_FIELDS>>;
export type NetworkPolicy = Resource<'NetworkPolicy', NetworkPolicySpec>;
export type GlobalNetworkPolicy = Resource<'GlobalNetworkPolicy', GlobalNetworkPolicySpec>;

/** Such policies see packets before it is known to which pod they go. */
export const EARLY_HTTP = 'is not allowed in policies with doNotTrack or preDNAT';

const ORDER_AND_SELECTOR: readonly Column<NetworkPolicy | GlobalNetworkPolicy>[] = [
  wide('ORDER', 'spec.order', ({ spec }) => String(spec.order ?? '')),
  wide('SELECTOR', 'spec.selector', ({ spec }) => spec.selector),
];

export const NETWORK_POLICY: KindDeclaration<NetworkPolicy> = {
  plural: 'networkpolicies',
  shortNames: ['np', 'nps', 'policy', 'policies', 'pol', 'pols'],
  scope: 'namespace',
  about: 'The traffic that pods of a namespace may send and receive.',
  enforced: true,
  writtenBy: 'user',
  columns: [namespaceColumn(), nameColumn(), ...ORDER_AND_SELECTOR],
  fields: POLICY_FIELDS,
  complete: withTypes,
  check: jointRules(POLICY_FIELDS, checkDirections),
  rules: RULE_RULES,
  example: {
    metadata: { name: 'web', namespace: 'shop' },
    spec: {
      order: 100,
      selector: "app == 'web'",
      types: ['Ingress', 'Egress'],
      ingress: [
        { action: 'Allow', protocol: 'TCP', source: { selector: "app == 'gateway'" }, destination: { ports: [8080] } },
      ],
      egress: [
        { action: 'Allow', protocol: 'UDP', destination: { ports: [53] } },
        { action: 'Allow', destination: { services: { name: 'orders', namespace: 'shop' } } },
      ],
    },
  },
};

export const GLOBAL_NETWORK_POLICY: KindDeclaration<GlobalNetworkPolicy> = {
  plural: 'globalnetworkpolicies',
  shortNames: ['gnp', 'gnps'],
  scope: 'cluster',
  about: 'The traffic that pods of all namespaces and host endpoints may send and receive.',
  enforced: true,
  writtenBy: 'user',
  columns: [nameColumn(), ...ORDER_AND_SELECTOR],
  fields: GLOBAL_FIELDS,
  complete: withTypes,
  check: jointRules(GLOBAL_FIELDS, checkGlobal),
  rules: [
    ...RULE_RULES,
    'doNotTrack and preDNAT exclude each other and staged, and each needs applyOnForward.',
    'preDNAT applies to incoming traffic: it allows no egress rules and no `Egress` among the types.',
  ],
  schemaRules: {
    spec: {
      allOf: [
        { not: isTrue('doNotTrack', 'preDNAT') },
        { not: isTrue('doNotTrack', 'staged') },
        { not: isTrue('preDNAT', 'staged') },
        { not: { ...isTrue('doNotTrack'), not: isTrue('applyOnForward') } },
        { not: { ...isTrue('preDNAT'), not: isTrue('applyOnForward') } },
      ],
    },
  },
  example: {
    metadata: { name: 'no-metadata-server' },
    spec: {
      order: 10,
      selector: 'all()',
      types: ['Egress'],
      egress: [
        { action: 'Deny', protocol: 'TCP', destination: { nets: ['192.0.2.80/32'], ports: [80, '8080:8090'] } },
        { action: 'Pass' },
      ],
    },
  },
};

/** Fills in the directions of a policy without types. */
function withTypes(spec: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { types, ingress, egress } = spec;
  if (isFilled(types)) return spec;
  const directions = [
    ...(isFilled(egress) && !isFilled(ingress) ? [] : ['Ingress']),
    ...(isFilled(egress) ? ['Egress'] : []),
  ];
  return { ...spec, types: directions };
}

function isFilled(list: unknown): boolean {
  return Array.isArray(list) && list.length > 0;
}

function checkDirections(
  {
    ingress,
    egress,
  }: { readonly ingress?: readonly Rule[] | undefined; readonly egress?: readonly Rule[] | undefined },
  refuse: Refuse,
): void {
  checkRules(ingress, 'ingress', refuse);
  checkRules(egress, 'egress', refuse);
}

function checkGlobal(spec: PartialOutput<typeof GLOBAL_FIELDS>, refuse: Refuse): void {
  checkDirections(spec, refuse);
  const { doNotTrack = false, preDNAT = false, applyOnForward = false, staged = false } = spec;
  const { types = [], ingress = [], egress = [] } = spec;
  if (doNotTrack && preDNAT) refuse('preDNAT', 'excludes doNotTrack: one of them must be false');
  for (const [field, isSet] of Object.entries({ doNotTrack, preDNAT })) {
    if (isSet && !applyOnForward) refuse(field, 'needs applyOnForward: true');
    if (isSet && staged) refuse('staged', `excludes ${field}: one of them must be false`);
  }
  for (const [index, { http }] of ingress.entries())
    if (http !== undefined && (doNotTrack || preDNAT)) refuse(`ingress[${String(index)}].http`, EARLY_HTTP);
  if (preDNAT && types.includes('Egress')) refuse('types', 'excludes "Egress" when preDNAT is true');
  if (preDNAT && egress.length > 0) refuse('egress', 'is not allowed when preDNAT is true');
}

function isTrue(...fields: readonly string[]): Readonly<Record<string, unknown>> {
  return { required: fields, properties: Object.fromEntries(fields.map((field) => [field, { enum: [true] }])) };
}
