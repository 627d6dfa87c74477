import * as v from 'valibot';
import { foreignRecord } from '../base/foreign-record.ts';
import { isPlainPath } from './canonical-path.ts';
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

/** Of methods or paths of one rule. */
const MOST_HTTP_PARTS = 20;
const MOST_CHARACTERS = 1024;
/** RFC 9110, section 5.6.2. */
const METHOD = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/;
const METHOD_TEXT = 'a method such as "GET", or "*"';
const PATH_TEXT =
  'a path of at most 1024 characters such as "/items": without "//", "." and ".." between slashes, query, blank, and each of % ; \\ # ?';

const HttpPathText = v.pipe(v.string('a path'), v.check(isRulePath, PATH_TEXT));

const HttpPath = v.pipe(
  objectWith('exact or prefix', {
    exact: optionalField(HttpPathText, 'The whole path, decoded and without query.'),
    prefix: optionalField(HttpPathText, 'This path and what is below it: `/pub` has `/pub/x`, not `/public`.'),
  }),
  v.check(
    ({ exact, prefix }) => (exact === undefined) !== (prefix === undefined),
    'an object with exact or prefix, not both',
  ),
  v.readonly(),
);

function isRulePath(text: string): boolean {
  return text.length <= MOST_CHARACTERS && isPlainPath(text) && !/[\s?%]/.test(text);
}

const HttpMethods = v.pipe(
  list(v.pipe(v.string('a string'), v.regex(METHOD, METHOD_TEXT)), 'an array of methods'),
  v.maxLength(MOST_HTTP_PARTS, 'at most 20 methods'),
  v.check((methods) => new Set(methods).size === methods.length, 'each method at most once'),
);

const Http = objectWith('methods or paths', {
  methods: optionalField(HttpMethods, 'Such as `GET`, in this spelling; `*` is any.'),
  paths: optionalField(
    v.pipe(list(HttpPath, 'an array of paths'), v.maxLength(MOST_HTTP_PARTS, 'at most 20 paths')),
    'Paths of the request. One that is not canonical matches none.',
  ),
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
