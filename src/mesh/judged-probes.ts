import { declaredSidecar, type DeclaredContainer, isHanded, SIDECAR } from '../model/declared-sidecar.ts';

const PROXY = 'istio-proxy';
const PROBES = ['startupProbe', 'readinessProbe', 'livenessProbe'] as const;
/** Where the mesh sends probes that it rewrites: to its own agent, which asks the application from inside the pod. */
const REWRITTEN = '/app-health/';

interface Probe {
  readonly httpGet?: { readonly port?: number | string; readonly path?: string; readonly host?: string };
  readonly grpc?: { readonly port?: number };
}

/** A container of a pod, as far as probes go. */
export interface ProbedContainer extends DeclaredContainer, Partial<Record<(typeof PROBES)[number], Probe>> {
  readonly ports?: readonly { readonly name?: string; readonly containerPort?: number }[];
}

/** Returns the ports at which the kubelet sends requests that the sidecar of the pod judges, because the mesh did not rewrite them. */
export function judgedProbes(
  containers: readonly ProbedContainer[],
  annotations: Readonly<Record<string, string>>,
): readonly number[] {
  const sidecar = declaredSidecar(containers, annotations);
  if (sidecar === undefined) return [];
  const own = containers.filter(({ name }) => name !== SIDECAR && name !== PROXY);
  const ports = own.flatMap((container) => PROBES.flatMap((probe) => portOf(container[probe] ?? {}, container) ?? []));
  return [...new Set(ports)].filter((port) => isHanded(sidecar, port));
}

function portOf({ httpGet, grpc }: Probe, { ports = [] }: ProbedContainer): number | undefined {
  if (httpGet === undefined) return grpc?.port;
  const { port, path = '', host = '' } = httpGet;
  if (host !== '' || path.startsWith(REWRITTEN)) return undefined;
  return typeof port === 'string' ? ports.find(({ name }) => name === port)?.containerPort : port;
}
