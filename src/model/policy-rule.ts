import * as v from 'valibot';
import { foreignRecord } from '../base/foreign-record.ts';
import { RuleNamespaceSelector, RuleSelector } from './policy-selectors.ts';
import { CidrOrAddressText, wholeNumber } from './spec-types.ts';
import { Ports, Protocol } from './protocol.ts';

const ACTIONS = ['Allow', 'Deny', 'Log', 'Pass'] as const;

function list<const S extends v.GenericSchema>(item: S, what: string) {
  return v.pipe(v.array(item, what), v.minLength(1, 'at least one, or leave the field out'), v.readonly());
}

const nets = list(CidrOrAddressText, 'an array of CIDRs');
const ports = list(Ports, 'an array of ports');

const ServiceAccounts = v.looseObject(
  {
    names: v.optional(v.pipe(list(v.string('a string'), 'an array of names'), v.description('Names of accounts.'))),
    selector: v.optional(v.pipe(RuleSelector, v.description('Labels of accounts.'))),
  },
  'an object with names or selector',
);

const Services = v.looseObject(
  {
    name: v.pipe(v.string('the name of a service'), v.description('Name of the service.')),
    namespace: v.optional(v.pipe(v.string('a string'), v.description("Its namespace; the policy's own unless set."))),
  },
  'an object with name and namespace',
);

export const ENTITY_FIELDS = {
  nets: v.optional(v.pipe(nets, v.description('CIDRs or addresses.'))),
  notNets: v.optional(v.pipe(nets, v.description('CIDRs or addresses to exclude.'))),
  selector: v.optional(v.pipe(RuleSelector, v.description('Labels of endpoints and network sets.'))),
  notSelector: v.optional(v.pipe(RuleSelector, v.description('Endpoints and network sets to exclude, by labels.'))),
  namespaceSelector: v.optional(
    v.pipe(
      RuleNamespaceSelector,
      v.description('Labels of the namespace; `global()` selects what is in no namespace.'),
    ),
  ),
  ports: v.optional(v.pipe(ports, v.description('Ports, ranges such as `"8080:8090"`, names of ports.'))),
  notPorts: v.optional(v.pipe(ports, v.description('Ports to exclude.'))),
  serviceAccounts: v.optional(v.pipe(ServiceAccounts, v.readonly(), v.description('Service accounts of pods.'))),
  services: v.optional(v.pipe(Services, v.readonly(), v.description('The endpoints of a service, with its ports.'))),
};

const Entity = v.pipe(v.looseObject(ENTITY_FIELDS, 'an object such as {"nets": ["192.0.2.0/24"]}'), v.readonly());

const Icmp = v.pipe(
  v.looseObject(
    {
      type: v.pipe(wholeNumber(0, 254), v.description('Type of the message.')),
      code: v.optional(v.pipe(wholeNumber(0, 255), v.description('Code within the type; any unless set.'))),
    },
    'an object with type and code',
  ),
  v.readonly(),
);

const HttpPath = v.pipe(
  v.looseObject(
    {
      exact: v.optional(v.pipe(v.string('a path'), v.description('The whole path.'))),
      prefix: v.optional(v.pipe(v.string('a path'), v.description('Beginning of the path.'))),
    },
    'an object with exact or prefix',
  ),
  v.check(
    ({ exact, prefix }) => (exact === undefined) !== (prefix === undefined),
    'an object with exact or prefix, not both',
  ),
  v.readonly(),
);

const Http = v.pipe(
  v.looseObject(
    {
      methods: v.optional(v.pipe(list(v.string('a string'), 'an array of methods'), v.description('Such as `GET`.'))),
      paths: v.optional(v.pipe(list(HttpPath, 'an array of paths'), v.description('Paths of the request.'))),
    },
    'an object with methods or paths',
  ),
  v.readonly(),
);

const RuleMetadata = v.looseObject(
  {
    annotations: v.optional(
      v.pipe(
        foreignRecord(v.string('a string'), v.string('a string'), 'an object of strings'),
        v.description('Free-form notes of the user.'),
      ),
    ),
  },
  'an object with annotations',
);

/** One rule as a user writes it; `checkRules` validates combinations of fields. */
export const RULE_FIELDS = {
  action: v.pipe(
    v.picklist(ACTIONS, '"Allow", "Deny", "Log" or "Pass"'),
    v.description('What happens to a matching packet; after `Log`, evaluation continues with the next rule.'),
  ),
  ipVersion: v.optional(v.pipe(v.picklist([4, 6], '4 or 6'), v.description('Only packets of one family.'))),
  protocol: v.optional(v.pipe(Protocol, v.description('By name or number; any unless set.'))),
  notProtocol: v.optional(v.pipe(Protocol, v.description('Any protocol but this.'))),
  icmp: v.optional(v.pipe(Icmp, v.description('Only ICMP messages of this type.'))),
  notICMP: v.optional(v.pipe(Icmp, v.description('Only ICMP messages of other types.'))),
  source: v.optional(v.pipe(Entity, v.description('Source of the packet; all given fields must match.'))),
  destination: v.optional(v.pipe(Entity, v.description('Destination of the packet; all given fields must match.'))),
  http: v.optional(v.pipe(Http, v.description('HTTP request to match; needs the application-layer sidecar.'))),
  metadata: v.optional(v.pipe(RuleMetadata, v.readonly(), v.description('Notes on the rule.'))),
};

/** Limit for all rules of one direction of a policy: rules of the kernel, and ports and networks in them. */
export const MOST_RULE_ENTRIES = 65_536;

const Rule = v.pipe(v.looseObject(RULE_FIELDS, 'an object with action'), v.readonly());
export type Rule = v.InferOutput<typeof Rule>;
export type Entity = v.InferOutput<typeof Entity>;

export const Rules = v.pipe(v.array(Rule, 'an array of rules'), v.readonly());
