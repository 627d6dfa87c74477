import { type ApiObject, isLeaving } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { containersIn, textIn } from '../../../upgrade/cluster/objects-in.ts';
import type { SidecarWorkload } from '../../../upgrade/cluster/snapshot.ts';
import { FLOW_PODS, PROBE_PODS } from '../../../install/cluster/probe-objects.ts';
import { podState, type PodState } from '../../../kube/status/pod-state.ts';
import { SYSTEM_PODS } from '../cluster/node-pods.ts';

const PROBES: readonly string[] = [...PROBE_PODS, ...FLOW_PODS];

/** Reads the pods of netplug, without those that probe the network: they are of no release that is installed. @throws store/* */
export async function readPods(api: OrchApi, signal: AbortSignal): Promise<readonly PodState[]> {
  const pods = await api.list(SYSTEM_PODS, { labelSelector: 'app.kubernetes.io/part-of=netplug' }, signal);
  return pods
    .filter((pod) => !isLeaving(pod))
    .map(podState)
    .filter(({ component }) => !PROBES.includes(component));
}

const SIDECAR = /\/(?:dikastes|netplug-sidecar):(v\d+\.\d+\.\d+)/;
const MESH = { group: 'apps', version: 'v1', plural: 'deployments', namespace: 'istio-system' } as const;
const CARRIERS = { Deployment: 'deployments', StatefulSet: 'statefulsets', DaemonSet: 'daemonsets' } as const;

export interface MeshState {
  readonly mesh: string | undefined;
  readonly sidecars: readonly SidecarWorkload[];
}

/** Reads the workloads whose pods carry a sidecar, and the version of the mesh. Pods show a sidecar that was injected. @throws store/* */
export async function readMesh(api: OrchApi, signal: AbortSignal): Promise<MeshState> {
  const discovery = await api.get(MESH, 'istiod', signal);
  if (discovery.outcome !== 'ok') return { mesh: undefined, sidecars: [] };
  const image = imagesOf(discovery.value).find((each) => /(pilot|istiod):/.test(each)) ?? '';
  const found: SidecarWorkload[] = [];
  for (const [kind, plural] of Object.entries(CARRIERS)) {
    for (const workload of await api.list({ group: 'apps', version: 'v1', plural }, {}, signal)) {
      const version = imagesOf(workload).flatMap((each) => SIDECAR.exec(each)?.[1] ?? [])[0];
      const { name, namespace = '' } = workload.metadata;
      if (version !== undefined) found.push({ kind, namespace, name, version });
    }
  }
  return { mesh: /:(\d+\.\d+\.\d+)/.exec(image)?.[1], sidecars: found };
}

function imagesOf(workload: ApiObject): readonly string[] {
  return containersIn(workload).map((container) => textIn(container, 'image'));
}
