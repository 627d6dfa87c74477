import * as v from 'valibot';
import { foreignRecord } from '../base/foreign-record.ts';
import { optionalField, type SpecOf } from './field.ts';
import { checkRules, RULE_RULES } from './check-rules.ts';
import { jointRules, type KindDeclaration, labelsText, nameColumn, wide } from './kind-info.ts';
import { isLabelValue, isQualifiedName } from './metadata.ts';
import { isDnsSubdomain } from './dns-name.ts';
import { NAMESPACE_PREFIX, OWN_PREFIX, SERVICE_ACCOUNT_PREFIX } from './policy-names.ts';
import { Rules } from './policy-rule.ts';
import { API_VERSION, type Resource } from './resource.ts';

const PREFIXES = [NAMESPACE_PREFIX, SERVICE_ACCOUNT_PREFIX];

/** A prefix comes before a whole name, and the name of a service account is longer than the value of a label. */
const APPLIED_LABELS = foreignRecord(
  v.pipe(
    v.string('a string'),
    v.check((key) => isQualifiedName(withoutPrefix(key)), 'a label name such as "example.org/name"'),
  ),
  v.pipe(
    v.string('a string'),
    v.check(
      (value) => isLabelValue(value) || isDnsSubdomain(value),
      'at most 63 letters, digits, "-", "_" and ".", with a letter or digit at both ends',
    ),
  ),
  'an object of strings',
);

function withoutPrefix(key: string): string {
  const prefix = PREFIXES.find((each) => key.startsWith(each)) ?? '';
  const label = key.slice(prefix.length);
  return label.startsWith(OWN_PREFIX) ? label.slice(OWN_PREFIX.length) : label;
}

const PROFILE_FIELDS = {
  ingress: optionalField(Rules, 'Rules for incoming traffic when no policy decides.'),
  egress: optionalField(Rules, 'Rules for outgoing traffic when no policy decides.'),
  labelsToApply: optionalField(
    APPLIED_LABELS,
    'Labels of endpoints with the profile; labels of the endpoint itself take precedence.',
  ),
};

export type ProfileSpec = SpecOf<typeof PROFILE_FIELDS>;
export type Profile = Resource<'Profile', ProfileSpec>;

/** Allows all traffic. Built into every cluster and never stored. */
export const DEFAULT_ALLOW: Profile = {
  apiVersion: API_VERSION,
  kind: 'Profile',
  metadata: { name: 'netplug-default-allow' },
  spec: { ingress: [{ action: 'Allow' }], egress: [{ action: 'Allow' }] },
};

export const PROFILE: KindDeclaration<Profile> = {
  plural: 'profiles',
  shortNames: ['pro', 'pros'],
  scope: 'cluster',
  about:
    'The traffic that endpoints with the profile may send and receive when no policy decides. `netplug-default-allow`, which allows everything, is built in and cannot be written.',
  enforced: true,
  writtenBy: 'user',
  columns: [nameColumn(), wide('LABELS', 'spec.labelsToApply', ({ spec }) => labelsText(spec.labelsToApply))],
  fields: PROFILE_FIELDS,
  check: jointRules(PROFILE_FIELDS, ({ ingress, egress }, refuse) => {
    checkRules(ingress, 'ingress', refuse);
    checkRules(egress, 'egress', refuse);
  }),
  rules: RULE_RULES,
  example: {
    metadata: { name: 'team-a' },
    spec: {
      ingress: [{ action: 'Allow', source: { selector: "team == 'a'" } }],
      egress: [{ action: 'Allow' }],
      labelsToApply: { team: 'a' },
    },
  },
};
