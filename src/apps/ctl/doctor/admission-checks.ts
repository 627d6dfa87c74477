import type { EnforcedPolicy } from '../../../kube/admission-policies.ts';
import { type AdmissionFacts, gatherAdmission, type OpenSwitch } from './admission-facts.ts';
import type { Check } from '../../../checks/check.ts';
import { topic } from './topic.ts';

export const ADMISSION_CHECKS: readonly Check<AdmissionFacts>[] = [
  {
    id: 'admission/unrestricted',
    severity: 'warning',
    expected: 'an admission policy that restricts each annotation that feature_control turns on',
    remedy:
      'Apply the policy, and label the namespaces or bind the roles that it names. Ignore this warning if another admission controller restricts the annotation',
    command: 'kubectl apply -f manifests/admission.yaml',
    judge: ({ path, switches, policies }) =>
      switches
        .filter((each) => policies !== undefined && !policies.some((policy) => restricts(policy, each)))
        .map(
          ({ name, annotation }) =>
            `"${path ?? ''}" sets feature_control.${name}, and no ValidatingAdmissionPolicy of the cluster restricts ${annotation}: every user who creates pods may set it`,
        ),
  },
  {
    id: 'admission/unknown',
    severity: 'note',
    expected: 'an account that may list ValidatingAdmissionPolicies and their bindings',
    remedy: 'Run the doctor with the account of an administrator, or an account that has the role netplug-viewer',
    command: 'netplugctl doctor --node --kubeconfig FILE',
    judge: ({ switches, listError }) =>
      listError === undefined
        ? []
        : [
            `cannot determine whether the cluster restricts ${switches.map(({ annotation }) => annotation).join(' and ')}: ${listError}`,
          ],
  },
];

export const ADMISSION = topic({
  area: 'admission',
  scope: 'node',
  gather: gatherAdmission,
  measure: ({ switches, policies = [] }) =>
    policies.filter((policy) => switches.some((each) => restricts(policy, each))).map(({ name }) => name),
  checks: ADMISSION_CHECKS,
});

/** Reports whether the policy matches pods and mentions the annotation. What exactly it allows is not evaluated. */
function restricts({ rules }: EnforcedPolicy, { annotation }: OpenSwitch): boolean {
  return rules.includes(annotation) && /"(pods|pods\/\*|\*|\*\/\*)"/.test(rules);
}
