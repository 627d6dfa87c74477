import { ADMISSION_POLICIES } from '../../../install/cluster/admission/admission-objects.ts';
import { reasonOf } from '../../../base/errors.ts';
import { isUnknownKind } from '../../../kube/answers.ts';
import { INSTALLATION_NAME } from '../../../model/installation.ts';
import type { Check } from '../../../checks/check.ts';
import { isStoreFailure, type Sources } from './sources.ts';
import { topic } from './topic.ts';

const NAMES = ADMISSION_POLICIES.map(({ name }) => name);

export interface PolicyFacts {
  /** Names of the policies of netplug that the API server does not carry out; undefined without one, or when it does not tell. */
  readonly missing: readonly string[] | undefined;
  /** Whether the Installation leaves them out. */
  readonly areLeftOut: boolean;
  /** Reason why the policies cannot be listed. */
  readonly listError: string | undefined;
}

export const POLICY_CHECKS: readonly Check<PolicyFacts>[] = [
  {
    id: 'admission-policies/missing',
    severity: 'warning',
    expected: 'every admission policy of netplug in force, unless the Installation leaves them out',
    remedy:
      'Set spec.admissionPolicies of the Installation to Enabled; without an operator, run "netplugctl install cluster" again, or apply the files',
    command: 'kubectl apply -f manifests/rbac.yaml -f manifests/admission.yaml -f manifests/node-restriction.yaml',
    judge: ({ missing, areLeftOut }) => (areLeftOut ? [] : lacking(missing)),
  },
  {
    id: 'admission-policies/left-out',
    severity: 'note',
    expected: 'admission policies that limit what users, the plugin and the agent may write',
    remedy: 'Set spec.admissionPolicies of the Installation to Enabled',
    judge: ({ missing, areLeftOut }) => (areLeftOut ? lacking(missing) : []),
  },
];

function lacking(missing: readonly string[] = []): readonly string[] {
  return missing.length === 0
    ? []
    : [
        `the API server does not carry out ${missing.join(', ')}: users may set more annotations of pods, and the token of a node may write more, than SECURITY.md says`,
      ];
}

export const POLICIES = topic({
  area: 'admission-policies',
  scope: 'cluster',
  gather: gatherPolicies,
  measure: ({ missing, listError }) => [
    ...(missing === undefined ? [] : [`${String(NAMES.length - missing.length)} of ${String(NAMES.length)} in force`]),
    ...(listError === undefined ? [] : [`not known: ${listError}`]),
  ],
  checks: POLICY_CHECKS,
});

const NOTHING: PolicyFacts = { missing: undefined, areLeftOut: false, listError: undefined };

/** Queries the API server that has the records, or that the plugin of this node reads pods from. */
async function gatherPolicies(sources: Sources, signal: AbortSignal): Promise<PolicyFacts> {
  const own = (await sources.confFiles()).find(({ isOurs }) => isOurs)?.netconf;
  // Why there is no connection is a finding about the datastore.
  const datastore = await sources.connection().then(
    (connection) => connection.datastore,
    () => undefined,
  );
  const settings = datastore?.type === 'orch' ? datastore.orch : own?.policyType === 'orch' ? own.orch : undefined;
  if (settings === undefined) return NOTHING;
  try {
    const policies = await sources.context.ports.listEnforcedPolicies(settings, signal);
    const inForce = new Set(policies.map(({ name }) => name));
    const missing = NAMES.filter((name) => !inForce.has(name));
    return { missing, areLeftOut: missing.length > 0 && (await areLeftOut(sources, signal)), listError: undefined };
  } catch (cause) {
    if (isUnknownKind(cause)) return { ...NOTHING, missing: NAMES };
    if (!isStoreFailure(cause)) throw cause;
    return { ...NOTHING, listError: reasonOf(cause) };
  }
}

async function areLeftOut(sources: Sources, signal: AbortSignal): Promise<boolean> {
  const store = await sources.store();
  const found = await store.findResource({ kind: 'Installation', name: INSTALLATION_NAME }, signal);
  return found?.spec.admissionPolicies === 'Disabled';
}
