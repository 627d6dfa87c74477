import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  countServers,
  type ServerCount,
  serverDemand,
  type ServerDemand,
  serverShortage,
  serversFor,
} from './count-servers.ts';

const MINUTE_MS = 60_000;
const demand = (nodes: number, more: Partial<ServerDemand> = {}): ServerDemand => ({
  nodes,
  able: nodes,
  fixed: undefined,
  ...more,
});

/** Runs an operator that looks every minute, and returns the number of servers after each look. */
function watch(replicas: number, looks: readonly ServerDemand[]): readonly number[] {
  let count: ServerCount = { replicas };
  return looks.map((each, minute) => {
    count = countServers(count, each, minute * MINUTE_MS);
    return count.replicas;
  });
}

const during = (minutes: number, each: ServerDemand): readonly ServerDemand[] =>
  Array.from({ length: minutes }, () => each);

describe('the number of servers of the fan-out', () => {
  it('is one more than the nodes need', () => {
    expect([1, 500, 501, 1000, 1001, 5000].map(serversFor)).toEqual([2, 2, 3, 3, 4, 11]);
  });

  it('follows the nodes at once when there are no servers yet', () => {
    expect(countServers(undefined, demand(1200), 0)).toEqual({ replicas: 4 });
  });

  it('grows when the nodes have needed more for ten minutes', () => {
    expect(watch(2, during(12, demand(600)))).toEqual([2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3]);
  });

  it('waits anew when the nodes need another number meanwhile, and stays when they need the same again', () => {
    const looks = [...during(9, demand(600)), ...during(9, demand(1100)), ...during(9, demand(600)), demand(400)];
    expect(new Set(watch(2, looks))).toEqual(new Set([2]));
  });

  it('shrinks only when a tenth more nodes would not need the server', () => {
    expect(watch(3, during(30, demand(480))).at(-1)).toBe(3);
    expect(watch(3, during(30, demand(450))).at(-1)).toBe(2);
  });

  it('stays for ever on a number of nodes that goes up and down at a limit', () => {
    const looks = Array.from({ length: 200 }, (_, minute) => demand(minute % 40 < 20 ? 495 : 505));
    expect(watch(3, looks).at(-1)).toBe(3);
  });

  it('is the one that the user has fixed, at once', () => {
    expect(watch(3, [demand(5000, { fixed: 5 })])).toEqual([5]);
  });

  it('is smaller where too few nodes can run a server, and never less than one', () => {
    expect(countServers(undefined, demand(5, { able: 1 }), 0)).toEqual({ replicas: 1 });
    expect(countServers(undefined, demand(0), 0)).toEqual({ replicas: 1 });
    expect(countServers(undefined, demand(5, { fixed: 9 }), 0)).toEqual({ replicas: 5 });
    expect(watch(5, during(12, demand(4, { fixed: 5 }))).slice(-2)).toEqual([4, 4]);
    expect(serverShortage(demand(5, { able: 1 }))).toContain('room for 1 of 2 servers');
    expect(serverShortage(demand(5))).toBeUndefined();
    expect(serverShortage(demand(5, { fixed: 9 }))).toContain('room for 5 of 9 servers');
  });

  it('changes at most once in ten minutes unless the user fixes it, and ends at what steady nodes need', () => {
    const history = fc.array(fc.record({ nodes: fc.nat(6000), minutes: fc.integer({ min: 1, max: 30 }) }), {
      maxLength: 10,
    });
    fc.assert(
      fc.property(history, fc.nat(6000), (steps, end) => {
        const looks = [
          ...steps.flatMap(({ nodes, minutes }) => during(minutes, demand(nodes))),
          ...during(12, demand(end)),
        ];
        const seen = watch(2, looks);
        const changes = seen.flatMap((replicas, index) => (index > 0 && replicas !== seen[index - 1] ? [index] : []));
        const gaps = changes.slice(1).map((minute, index) => minute - changes[index]!);
        expect(gaps.filter((minutes) => minutes < 10)).toEqual([]);
        const last = seen.at(-1)!;
        const [least, most] = [serversFor(end), serversFor(Math.ceil(end * 1.1))].map((each) =>
          Math.min(each, Math.max(1, end)),
        );
        expect(last).toBeGreaterThanOrEqual(least!);
        expect(last).toBeLessThanOrEqual(most!);
      }),
    );
  });
});

describe('the nodes that can run a server', () => {
  const node = (more: object = {}) => ({ isSchedulable: true, os: 'linux', labels: {}, taints: [], ...more });

  it('are those that are not cordoned, with taints that servers tolerate', () => {
    const nodes = [
      node(),
      node({ isSchedulable: false, taints: ['node.kubernetes.io/unschedulable=:NoSchedule'] }),
      node({ os: 'windows' }),
      node({
        taints: ['node-role.kubernetes.io/control-plane=:NoSchedule', 'node.kubernetes.io/not-ready=:NoExecute'],
      }),
      node({ taints: ['gpu=only:NoSchedule'] }),
      node({ taints: ['gpu=rather:PreferNoSchedule'] }),
    ];
    expect(serverDemand(nodes, {})).toEqual({ nodes: 4, able: 3, fixed: undefined });
    expect(serverDemand(nodes, { replicas: 4, tolerations: [{ key: 'gpu', operator: 'Exists' }] })).toEqual({
      nodes: 4,
      able: 3,
      fixed: 4,
    });
  });

  it('have the labels of the node selector', () => {
    const nodes = [node({ labels: { role: 'infra' } }), node()];
    expect(serverDemand(nodes, { nodeSelector: { role: 'infra' } })).toMatchObject({ nodes: 2, able: 1 });
  });
});
