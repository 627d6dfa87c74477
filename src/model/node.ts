import type { Resource } from './resource.ts';

export interface NodeSpec {
  /** Addresses of the node itself, for people and for routing. */
  readonly addresses?: readonly { readonly address: string; readonly type: 'NodeIP' | 'InternalIP' | 'ExternalIP' }[];
}
/** Labels live in `metadata.labels`; pools select nodes by them. */
export type Node = Resource<'Node', NodeSpec>;
