/** The fields of a Pod and its Namespace that netplug uses. */
export interface PodFacts {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Undefined until the orchestrator has chosen one. */
  readonly nodeName?: string | undefined;
  /** Annotations of the pod's namespace. */
  readonly namespaceAnnotations: Readonly<Record<string, string>>;
  readonly serviceAccount: string | undefined;
  /** Ports of containers and sidecars that have a name or a host port. */
  readonly ports: readonly PodPort[];
}

export interface PodPort {
  readonly name?: string;
  readonly protocol: string;
  readonly port: number;
  readonly hostPort?: number;
  readonly hostIP?: string;
}
