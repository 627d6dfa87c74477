// Random requests, for comparing implementations of policies.
import * as fc from 'fast-check';
import { parseAddress } from '../../src/net/address.ts';
import { type PacketContent, requestContent, type RequestPeer } from '../../src/policy/packet-content.ts';
import { type Apply, globalPolicy } from './policy-arbitraries.ts';

const HOSTS = ['1', '2', '3', '4', '5', '6', '99'];
export const METHODS = ['GET', 'POST', 'get'];
export const TARGETS = ['/a', '/a/b', '/ab', '/b?x=/a', '/a/', '/', '*', '/a//b', '/%61', '/a%2fb', '/a/../b', '/b;x'];
const PORTS = [80, 81, 443, 8001, 8002];
const NAMESPACES = ['x', 'y'];

const peer = fc.constantFrom<RequestPeer | undefined>(
  undefined,
  'nobody',
  ...NAMESPACES.flatMap((namespace) => ['one', 'two', 'other'].map((name) => ({ namespace, name }))),
);
const content: fc.Arbitrary<PacketContent> = fc
  .oneof({ weight: 5, arbitrary: fc.tuple(fc.constantFrom(...METHODS), fc.constantFrom(...TARGETS), peer) }, peer)
  .map((known) =>
    Array.isArray(known)
      ? requestContent(...known)
      : { kind: 'stream', ...(known === undefined ? {} : { peer: known }) },
  );
export const question = fc.record({
  packet: fc.constantFrom(4 as const, 6 as const).chain((family) => {
    const address = fc.constantFrom(...HOSTS.map((host) => (family === 4 ? `10.65.0.${host}` : `fd00:65::${host}`)));
    const port = fc.constantFrom(...PORTS);
    return fc.record({
      source: address.map(parseAddress),
      protocol: fc.constant(6),
      sourcePort: port,
      destinationPort: port,
    });
  }),
  content,
});

/** Accounts that come and go, policies for all pods, and pods of which all ports are guarded. */
export const aboutRequests: fc.Arbitrary<Apply> = fc.oneof(
  fc.tuple(fc.constantFrom(...NAMESPACES), fc.constantFrom('one', 'two'), fc.integer({ min: 0, max: 4 })).map(
    ([namespace, named, choice]): Apply =>
      (cluster) =>
        choice === 0 ? cluster.removeAccount(namespace, named) : cluster.putAccount(namespace, named),
  ),
  fc.constantFrom('p', 'q').map((named): Apply => (cluster) => {
    const rules = [{ action: 'Allow', http: { methods: ['GET'], paths: [{ prefix: '/a' }] } }];
    return cluster.put(globalPolicy(named, {}, { selector: 'all()', ingress: rules }));
  }),
  fc.integer({ min: 1, max: 6 }).map(
    (ordinal): Apply =>
      (cluster) =>
        cluster.putGuard(ordinal, PORTS),
  ),
);
