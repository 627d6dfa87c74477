/** Name of the container and of its program. */
export const SIDECAR = 'netplug-sidecar';

/** Annotations by which a pod of the mesh says what its proxy is handed. */
export const MESH_ANNOTATIONS = {
  excludedPorts: 'traffic.sidecar.istio.io/excludeInboundPorts',
  includedPorts: 'traffic.sidecar.istio.io/includeInboundPorts',
  excludedInterfaces: 'traffic.sidecar.istio.io/excludeInterfaces',
  interception: 'sidecar.istio.io/interceptionMode',
} as const;

/** Container that redirects what the pod receives, and its arguments for the same. */
export const REDIRECTOR = 'istio-init';
const EXCLUDED = ['-d', '--istio-local-exclude-ports', '--istio-exclude-inbound-ports'];
const INCLUDED = ['-b', '--istio-inbound-ports'];
const EXCLUDED_INTERFACES = ['-c', '--istio-exclude-interfaces'];

/** The sidecar of a pod, and which TCP ports of the pod its proxy is handed. */
export interface DeclaredSidecar {
  /** Tag of its image, which is its release; empty when it has none. */
  readonly release: string;
  readonly isRedirected: boolean;
  readonly excludedPorts: readonly number[];
  /** Undefined for all. */
  readonly includedPorts?: readonly number[];
}

export interface DeclaredContainer {
  readonly name?: string | undefined;
  readonly image?: string | undefined;
  readonly args?: readonly string[] | undefined;
}

/** Returns the sidecar that a pod declares; undefined for a pod without. What cannot be read counts as not handed to the proxy. */
export function declaredSidecar(
  containers: readonly DeclaredContainer[],
  annotations: Readonly<Record<string, string>>,
): DeclaredSidecar | undefined {
  const sidecar = containers.find(({ name }) => name === SIDECAR);
  if (sidecar === undefined) return undefined;
  const args = containers.find(({ name }) => name === REDIRECTOR)?.args ?? [];
  const excluded = [annotations[MESH_ANNOTATIONS.excludedPorts], valueOf(args, EXCLUDED)].map(portsIn);
  const included = [annotations[MESH_ANNOTATIONS.includedPorts], valueOf(args, INCLUDED)].flatMap((text) =>
    text === undefined || text.trim() === '*' ? [] : [portsIn(text)],
  );
  const both = [...excluded, ...included];
  const mode = annotations[MESH_ANNOTATIONS.interception] ?? 'REDIRECT';
  const interfaces = [annotations[MESH_ANNOTATIONS.excludedInterfaces], valueOf(args, EXCLUDED_INTERFACES)];
  const isOfAll = interfaces.every((text) => (text ?? '').trim() === '');
  const lists = included.flatMap((ports) => (ports === undefined ? [] : [ports]));
  const [first, ...others] = lists;
  return {
    release: releaseOf(sidecar.image ?? ''),
    isRedirected: isOfAll && ['REDIRECT', 'TPROXY'].includes(mode) && both.every((ports) => ports !== undefined),
    excludedPorts: [...new Set(excluded.flatMap((ports) => ports ?? []))].toSorted((a, b) => a - b),
    ...(first === undefined
      ? {}
      : { includedPorts: first.filter((port) => others.every((each) => each.includes(port))) }),
  };
}

/** Ports of the mesh's own programs, and those that its redirection leaves out. */
export const MESH_PORTS: readonly number[] = [15_000, 15_001, 15_004, 15_006, 15_008, 15_020, 15_021, 15_053, 15_090];

/** Reports whether the proxy of the pod is handed what the pod receives at the port. */
export function isHanded({ isRedirected, excludedPorts, includedPorts }: DeclaredSidecar, port: number): boolean {
  if (!isRedirected || MESH_PORTS.includes(port) || excludedPorts.includes(port)) return false;
  return includedPorts === undefined || includedPorts.includes(port);
}

const MOST_TEXT = 1024;

/** Returns the ports of a list; undefined when it is no list of ports. */
function portsIn(text: string | undefined): readonly number[] | undefined {
  const parts = (text ?? '').split(',').map((part) => part.trim());
  const listed = parts.filter((part) => part !== '');
  // Longer texts may have been cut.
  const isWhole = (text ?? '').length <= MOST_TEXT;
  return isWhole && listed.every((part) => /^\d{1,5}$/.test(part)) ? listed.map(Number) : undefined;
}

/** Returns the value of the option with one of the names, as `-d 1,2` or `-d=1,2`. */
function valueOf(args: readonly string[], names: readonly string[]): string | undefined {
  for (const [at, arg] of args.entries()) {
    const [name = '', ...value] = arg.split('=');
    if (names.includes(name)) return value.length > 0 ? value.join('=') : args[at + 1];
  }
  return undefined;
}

/** `netplug.io/netplug-sidecar:v3.27.0@sha256:…` */
function releaseOf(image: string): string {
  const [tagged = ''] = image.split('@');
  return /:([\w.-]{1,128})$/.exec(tagged)?.[1] ?? '';
}
