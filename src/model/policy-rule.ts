import * as v from 'valibot';
import { foreignRecord } from '../base/foreign-record.ts';
import { field, listOf, objectWith, optionalField, oneOf } from './field.ts';
import { RuleNamespaceSelector, RuleSelector } from './policy-selectors.ts';
import { CidrOrAddressText, wholeNumber } from './spec-types.ts';
import { Ports, Protocol } from './protocol.ts';

const ACTIONS = ['Allow', 'Deny', 'Log', 'Pass'] as const;

function list<const S extends v.GenericSchema>(item: S, what: string) {
  return v.pipe(v.array(item, what), v.minLength(1, 'at least one, or leave the field out'), v.readonly());
}

const nets = list(CidrOrAddressText, 'an array of CIDRs');
const ports = list(Ports, 'an array of ports');

const ServiceAccounts = objectWith('names or selector', {
  names: optionalField(list(v.string('a string'), 'an array of names'), 'Names of accounts.'),
  selector: optionalField(RuleSelector, 'Labels of accounts.'),
});

const Services = objectWith('name and namespace', {
  name: field(v.string('the name of a service'), 'Name of the service.'),
  namespace: optionalField(v.string('a string'), "Its namespace; the policy's own unless set."),
});

export const ENTITY_FIELDS = {
  nets: optionalField(nets, 'CIDRs or addresses.'),
  notNets: optionalField(nets, 'CIDRs or addresses to exclude.'),
  selector: optionalField(RuleSelector, 'Labels of endpoints and network sets.'),
  notSelector: optionalField(RuleSelector, 'Endpoints and network sets to exclude, by labels.'),
  namespaceSelector: optionalField(
    RuleNamespaceSelector,
    'Labels of the namespace; `global()` selects what is in no namespace.',
  ),
  ports: optionalField(ports, 'Ports, ranges such as `"8080:8090"`, names of ports.'),
  notPorts: optionalField(ports, 'Ports to exclude.'),
  serviceAccounts: optionalField(ServiceAccounts, 'Service accounts of pods.'),
  services: optionalField(Services, 'The endpoints of a service, with its ports.'),
};

const Entity = v.pipe(v.looseObject(ENTITY_FIELDS, 'an object such as {"nets": ["192.0.2.0/24"]}'), v.readonly());

const Icmp = objectWith('type and code', {
  type: field(wholeNumber(0, 254), 'Type of the message.'),
  code: optionalField(wholeNumber(0, 255), 'Code within the type; any unless set.'),
});

const HttpPath = v.pipe(
  objectWith('exact or prefix', {
    exact: optionalField(v.string('a path'), 'The whole path.'),
    prefix: optionalField(v.string('a path'), 'Beginning of the path.'),
  }),
  v.check(
    ({ exact, prefix }) => (exact === undefined) !== (prefix === undefined),
    'an object with exact or prefix, not both',
  ),
  v.readonly(),
);

const Http = objectWith('methods or paths', {
  methods: optionalField(list(v.string('a string'), 'an array of methods'), 'Such as `GET`.'),
  paths: optionalField(list(HttpPath, 'an array of paths'), 'Paths of the request.'),
});

const RuleMetadata = objectWith('annotations', {
  annotations: optionalField(
    foreignRecord(v.string('a string'), v.string('a string'), 'an object of strings'),
    'Free-form notes of the user.',
  ),
});

/** One rule as a user writes it; `checkRules` validates combinations of fields. */
export const RULE_FIELDS = {
  action: field(
    oneOf(ACTIONS),
    'What happens to a matching packet; after `Log`, evaluation continues with the next rule.',
  ),
  ipVersion: optionalField(v.picklist([4, 6], '4 or 6'), 'Only packets of one family.'),
  protocol: optionalField(Protocol, 'By name or number; any unless set.'),
  notProtocol: optionalField(Protocol, 'Any protocol but this.'),
  icmp: optionalField(Icmp, 'Only ICMP messages of this type.'),
  notICMP: optionalField(Icmp, 'Only ICMP messages of other types.'),
  source: optionalField(Entity, 'Source of the packet; all given fields must match.'),
  destination: optionalField(Entity, 'Destination of the packet; all given fields must match.'),
  http: optionalField(Http, 'HTTP request to match; needs the application-layer sidecar.'),
  metadata: optionalField(RuleMetadata, 'Notes on the rule.'),
};

/** Limit for all rules of one direction of a policy: rules of the kernel, and ports and networks in them. */
export const MOST_RULE_ENTRIES = 65_536;

const Rule = objectWith('action', RULE_FIELDS);
export type Rule = v.InferOutput<typeof Rule>;
export type Entity = v.InferOutput<typeof Entity>;

export const Rules = listOf(Rule, 'an array of rules');
