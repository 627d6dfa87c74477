import { counted } from '../../../base/counted.ts';
import { isNetplugError, reasonOf } from '../../../base/errors.ts';
import { type Check, faultOf } from '../../../checks/check.ts';
import { MESH_CHECKS, type MeshFacts } from '../../../checks/mesh-checks.ts';
import type { Store } from '../../../datastore/store.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import { PODS } from '../../../kube/paths.ts';
import { judgedProbes, type ProbedContainer } from '../../../mesh/judged-probes.ts';
import { SIDECAR } from '../../../model/declared-sidecar.ts';
import { hasRequestRules } from '../../../policy/judge-request.ts';
import { listIn, recordIn, textIn } from '../../../upgrade/cluster/objects-in.ts';
import { readMeshFacts } from '../mesh/read-mesh-facts.ts';
import { readPolicyState } from '../policy/read-policy-state.ts';
import { findApiAccess, type Sources } from './sources.ts';
import { topic } from './topic.ts';

const SHOWN = 20;
const WITHOUT_MESH =
  'Install a service mesh with template and filter of netplug, unless its control plane is outside this cluster (docs/netplug-sidecar.md); or write rules without http';

export interface ExaminedSidecars {
  readonly meshState: MeshFacts | undefined;
  /** Pods to which a rule with http applies, as `shop/web-1`. */
  readonly asked: readonly string[];
  /** Those without a sidecar. */
  readonly without: readonly string[];
  /** Those whose probes the mesh has not rewritten, with the ports. */
  readonly probed: readonly string[];
  /** Reason why the cluster is not known. */
  readonly unknown: string | undefined;
}

export const SIDECAR_CHECKS: readonly Check<ExaminedSidecars>[] = [
  ...MESH_CHECKS,
  {
    id: 'mesh/pod-without-sidecar',
    severity: 'warning',
    expected: 'netplug-sidecar in every pod to which a rule with http applies',
    remedy:
      'Add the annotation inject.istio.io/templates: sidecar,netplug to the template of these pods, or select other pods in the policy (docs/netplug-sidecar.md)',
    judge: ({ without, meshState }) =>
      faultOf(
        shortened(without),
        'rules with http allow nothing to pods without netplug-sidecar',
        (meshState?.injectors ?? []).length === 0 ? WITHOUT_MESH : undefined,
      ),
  },
  {
    id: 'mesh/probe-rewrite',
    severity: 'warning',
    expected: 'HTTP and gRPC probes that the mesh rewrites, in pods to which a rule with http applies',
    remedy:
      'Set sidecarInjectorWebhook.rewriteAppHTTPProbe of the mesh to true and remove the annotation sidecar.istio.io/rewriteAppHTTPProbers of these pods, for pods that are made from then on; or allow the probes by a rule',
    judge: ({ probed }) =>
      faultOf(shortened(probed), 'netplug-sidecar judges the probes of the kubelet like requests of any client'),
  },
];

export const MESH = topic({
  area: 'mesh',
  scope: 'cluster',
  needsRecords: true,
  gather: gatherSidecars,
  measure: ({ asked, unknown }) => [
    ...(asked.length === 0 ? [] : [`rules with http for ${counted(asked.length, 'pod')}`]),
    ...(unknown === undefined ? [] : [`not known: ${unknown}`]),
  ],
  checks: SIDECAR_CHECKS,
});

const NOTHING: ExaminedSidecars = { meshState: undefined, asked: [], without: [], probed: [], unknown: undefined };

async function gatherSidecars(sources: Sources, signal: AbortSignal): Promise<ExaminedSidecars> {
  const asked = await readAskedPods(sources, signal);
  const access = await findApiAccess(sources);
  if ('why' in access) return { ...NOTHING, asked, unknown: asked.length === 0 ? undefined : access.why };
  await using api = sources.context.ports.openApi(access);
  try {
    // Pods that are to get a sidecar need a mesh that injects it, before the first of them has one.
    const ifUnused = asked.length === 0 ? 'omit' : 'read';
    const meshState = await readMeshFacts(api, { ifUnused }, signal);
    const pods = asked.length === 0 ? [] : await api.list(PODS, {}, signal);
    return { meshState, asked, ...judgePods(asked, pods), unknown: undefined };
  } catch (cause) {
    // The records were read: what this account may not read besides is a finding.
    throw isNetplugError(cause, 'store/refused') ? new Error(reasonOf(cause), { cause }) : cause;
  }
}

/** Reads all policies and what they select, where one has a rule with http. */
async function readAskedPods({ store, context }: Sources, signal: AbortSignal): Promise<readonly string[]> {
  const opened = await store();
  if (!(await hasHttpRules(opened, signal))) return [];
  const io = { ...context.io, stderr: () => undefined };
  const { state } = await readPolicyState({ io, signal }, opened);
  return [...state.endpoints.values()]
    .filter((endpoint) => endpoint.kind === 'workload' && hasRequestRules(state, endpoint))
    .map(({ shown }) => shown)
    .toSorted();
}

async function hasHttpRules(store: Store, signal: AbortSignal): Promise<boolean> {
  const kinds = ['NetworkPolicy', 'GlobalNetworkPolicy', 'Profile'] as const;
  const lists = await Promise.all(kinds.map(async (kind) => store.listResources(kind, signal)));
  return lists.some(({ resources }) =>
    resources.some(({ spec }) => spec.ingress?.some(({ http }) => http !== undefined) === true),
  );
}

/** Pods that the API no longer has, or that have ended, are left out. */
export function judgePods(
  asked: readonly string[],
  pods: readonly ApiObject[],
): Pick<ExaminedSidecars, 'without' | 'probed'> {
  const byName = new Map(pods.map((pod) => [`${pod.metadata.namespace ?? ''}/${pod.metadata.name}`, pod]));
  const found = asked.flatMap((name) => {
    const pod = byName.get(name);
    if (pod === undefined || ['Succeeded', 'Failed'].includes(textIn(recordIn(pod, 'status'), 'phase'))) return [];
    const spec = recordIn(pod, 'spec');
    // What the API has accepted has the form of a container.
    const containers = [...listIn(spec, 'initContainers'), ...listIn(spec, 'containers')] as readonly ProbedContainer[];
    const ports = judgedProbes(containers, pod.metadata.annotations ?? {});
    return [{ name: `Pod ${name}`, ports, hasSidecar: containers.some((each) => each.name === SIDECAR) }];
  });
  return {
    without: found.filter(({ hasSidecar }) => !hasSidecar).map(({ name }) => name),
    probed: found.filter(({ ports }) => ports.length > 0).map(({ name, ports }) => `${name} (${ports.join(', ')})`),
  };
}

function shortened(objects: readonly string[]): readonly string[] {
  const more = objects.length - SHOWN;
  return more > 0 ? [...objects.slice(0, SHOWN), `${String(more)} more`] : objects;
}
