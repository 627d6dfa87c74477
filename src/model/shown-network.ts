import * as v from 'valibot';
import { NODE_PROBLEM_FIELDS } from './node-report.ts';
import { readJson } from './shown-call.ts';

const SESSION = v.object({
  peer: v.string(),
  /** `mesh`, `node` or `global`. */
  kind: v.string(),
  state: v.string(),
  /** Undefined where BFD does not watch the peer, and from an agent of an earlier release. */
  bfd: v.optional(v.string()),
  since: v.string(),
  info: v.string(),
});

/** The network of a node as its agent reports it; fields of newer agents are ignored. */
const SHOWN_NETWORK = v.object({
  node: v.string(),
  /** With the prefix length of their subnet. */
  addresses: v.array(v.object({ address: v.string(), device: v.string() })),
  tunnels: v.array(v.object({ device: v.string(), address: v.optional(v.string()) })),
  /** The desired number of routes by kind. */
  routes: v.object({ blackhole: v.number(), direct: v.number(), tunnelled: v.number() }),
  peers: v.number(),
  nodes: v.number(),
  pools: v.array(v.object({ name: v.string(), cidr: v.string(), mode: v.string() })),
  /** Undefined where BIRD is not needed. */
  bgp: v.optional(v.array(SESSION)),
  /** Who serves what every node follows; undefined where that is the API server or etcd. Without a server, why. */
  fanOut: v.optional(
    v.object({
      server: v.optional(v.string()),
      since: v.optional(v.string()),
      heardSecondsAgo: v.optional(v.number()),
      moves: v.number(),
      lastError: v.optional(v.string()),
      /** Code of that error; missing where the connection only ended. */
      lastCode: v.optional(v.string()),
    }),
  ),
  /** Sidecars that judge requests of pods; an agent without any reports none. */
  sidecars: v.optional(
    v.array(
      v.object({
        pod: v.string(),
        release: v.string(),
        /** `waiting`, `unproven`, `guarding` or `lapsed`. */
        state: v.string(),
        ports: v.array(v.number()),
        since: v.string(),
        proxy: v.string(),
        problems: v.array(v.string()),
      }),
    ),
  ),
  /** Settings of the agent and where each comes from; an agent of an earlier release reports none. */
  settings: v.optional(v.array(v.object({ name: v.string(), value: v.string(), source: v.string() }))),
  /** What the agent knows to be wrong on the node, errors first. */
  problems: v.array(v.object(NODE_PROBLEM_FIELDS)),
});
export type ShownNetwork = v.InferOutput<typeof SHOWN_NETWORK>;

/** Decodes an answer; undefined when the text is not one. */
export function readShownNetwork(text: string): ShownNetwork | undefined {
  return readJson(SHOWN_NETWORK, text);
}
