import { describe, expect, it } from 'vitest';
import type { TrackedFlow } from '../dataplane/flow-table.ts';
import { parseAddress } from '../net/address.ts';
import { parseCidr } from '../net/cidr.ts';
import type { NatInput } from './nat-table.ts';
import { staleFlows } from './stale-flows.ts';

/** `floating` leads to `pod`, which has another one as well; `former` led to it before. */
const [FLOATING, SECOND, FORMER] = ['203.0.113.1', '203.0.113.2', '203.0.113.9'];
const [POD, OTHER_POD, PLAIN_POD] = ['10.65.0.1', '10.65.0.2', '10.66.0.1'];
const [CLIENT, NODE, SERVICE] = ['198.51.100.7', '198.51.100.1', '10.96.0.1'];

const INPUT: NatInput = {
  natPools: [parseCidr('10.65.0.0/16')],
  allPools: ['10.65.0.0/16', '10.66.0.0/16'].map(parseCidr),
  floating: [FLOATING, SECOND].map((external) => ({ external: parseAddress(external), internal: parseAddress(POD) })),
  tunnels: [],
};
const isStale = staleFlows(
  INPUT,
  { floating: new Set([FORMER]), lostPools: new Set(['10.66.0.0/16']) },
  new Set([NODE]),
);

const UDP = 17;
const TCP = 6;
type Ends = readonly [source: string, destination: string];

function flow(
  original: Ends,
  reply: Ends,
  more: Partial<TrackedFlow> & { readonly protocol?: number } = {},
): TrackedFlow {
  const { protocol = UDP, ...rest } = more;
  const tuple = ([source, destination]: Ends) => ({
    source: parseAddress(source),
    destination: parseAddress(destination),
    protocol,
    sourcePort: 1,
    destinationPort: 2,
  });
  return { original: tuple(original), reply: tuple(reply), isReplied: true, handle: new Uint8Array(), ...rest };
}

describe('is stale', () => {
  it.each([
    ['to a floating IP, not translated', [CLIENT, FLOATING], [FLOATING, CLIENT]],
    ['to a floating IP, at another pod', [CLIENT, FLOATING], [OTHER_POD, CLIENT]],
    ['to a former floating IP', [CLIENT, FORMER], [POD, CLIENT]],
    ['of a pod, with a former floating IP outside', [POD, CLIENT], [CLIENT, FORMER]],
    ['of a pod, with the floating IP of another one outside', [OTHER_POD, CLIENT], [CLIENT, FLOATING]],
    ['of a pod, with its second floating IP outside', [POD, CLIENT], [CLIENT, SECOND]],
  ] as const)('a connection %s', (_what, original, reply) => {
    expect(isStale(flow(original, reply, { protocol: TCP }))).toBe(true);
    expect(isStale(flow(original, reply))).toBe(true);
  });

  it.each([
    ['with the address of the node in place of its floating IP', [POD, CLIENT], [CLIENT, NODE]],
    ['with its own address in place of its floating IP', [POD, CLIENT], [CLIENT, POD]],
    ['with its own address in place of that of the node', [OTHER_POD, CLIENT], [CLIENT, OTHER_POD]],
    ['with the address of the node, whose pool has natOutgoing no more', [PLAIN_POD, CLIENT], [CLIENT, NODE]],
  ] as const)('what a pod sends outside %s, unless it is a connection that was answered', (_what, original, reply) => {
    expect(isStale(flow(original, reply))).toBe(true);
    expect(isStale(flow(original, reply, { protocol: TCP, isReplied: false }))).toBe(true);
    expect(isStale(flow(original, reply, { protocol: TCP, isUnsettled: true }))).toBe(true);
    expect(isStale(flow(original, reply, { protocol: TCP }))).toBe(false);
  });
});

it.each([
  ['to a floating IP, at its pod', [CLIENT, FLOATING], [POD, CLIENT]],
  ['of a pod to itself by its floating IP', [POD, SECOND], [POD, FLOATING]],
  ['of a pod outside, with its floating IP', [POD, CLIENT], [CLIENT, FLOATING]],
  ['of a pod outside, with the address of the node', [OTHER_POD, CLIENT], [CLIENT, NODE]],
  ['of a pod outside, whose pool has no natOutgoing', [PLAIN_POD, CLIENT], [CLIENT, PLAIN_POD]],
  ['of a pod outside, which another program translates', [PLAIN_POD, CLIENT], [CLIENT, '192.0.2.9']],
  ['between pods', [POD, PLAIN_POD], [PLAIN_POD, POD]],
  ['of a pod to its node', [OTHER_POD, NODE], [NODE, OTHER_POD]],
  ['of a pod to a service of the node', [OTHER_POD, SERVICE], [NODE, OTHER_POD]],
  ['of a pod to a service of pods', [POD, SERVICE], [PLAIN_POD, POD]],
  ['of a pod to a group', [OTHER_POD, '239.1.2.3'], ['239.1.2.3', OTHER_POD]],
  ['from outside to a pod', [CLIENT, POD], [POD, CLIENT]],
  ['to a former floating IP, not translated', [CLIENT, FORMER], [FORMER, CLIENT]],
  ['that passes the node', [CLIENT, '192.0.2.5'], ['192.0.2.5', CLIENT]],
] as const)('is not stale: %s', (_what, original, reply) => {
  expect(isStale(flow(original, reply))).toBe(false);
});
