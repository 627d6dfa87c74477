import { expect, it } from 'vitest';
import type { TrackedFlow } from '../../../../dataplane/flow-table.ts';
import type { ExpiringChange } from '../../../../dataplane/policy-filter.ts';
import { parseAddress } from '../../../../net/address.ts';
import { EndedRecord, type FlowOwner } from './ended-record.ts';

const SERVER = '10.9.0.1';
const DAY_MS = 86_400_000;

function flowOf(pod: string, port: number, more: Partial<TrackedFlow> = {}): TrackedFlow {
  const [source, destination] = [parseAddress(pod), parseAddress(pod.includes(':') ? 'fd00::9' : SERVER)];
  return {
    original: { source, destination, protocol: 6, sourcePort: port, destinationPort: 80 },
    reply: { source: destination, destination: source, protocol: 6, sourcePort: 80, destinationPort: port },
    isReplied: true,
    handle: Buffer.from(`${pod} ${String(port)}`),
    ...more,
  };
}

function ownedBy(namespace: string, pod: string, ports: readonly number[]): Parameters<EndedRecord['add']>[0] {
  return ports.map((port) => ({ flow: flowOf(pod, port), owner: { namespace, cut: parseAddress(pod) } }));
}

/** Returns source ports of the flows whose packets the kernel drops, and the pods that are cut, after all changes. */
class Kernel {
  readonly elements = new Map<string, Map<string, number>>();

  take({ removed, added }: ExpiringChange): void {
    for (const [name, texts] of removed)
      for (const text of texts)
        if (this.elements.get(name)?.delete(text) !== true) throw new Error(`no element ${text}`);
    for (const [name, texts] of added) this.elements.set(name, new Map([...(this.elements.get(name) ?? []), ...texts]));
  }

  ports(pod: string): readonly number[] {
    const all = [...this.elements.values()].flatMap((set) => [...set.keys()]);
    return all
      .filter((text) => text.startsWith(`${pod} `) && text.endsWith(' 80'))
      .map((text) => Number(text.split(' ')[2]));
  }

  cut(): readonly string[] {
    return [...this.elements].filter(([name]) => name.startsWith('cut-')).flatMap(([, set]) => [...set.keys()]);
  }
}

const ports = (count: number, first = 0): readonly number[] => Array.from({ length: count }, (_, at) => first + at);

it('keeps the flows of a namespace while another one has more than its share, whose oldest make room', () => {
  const [kernel, record] = [new Kernel(), new EndedRecord({ ofNamespace: 20, all: 100 })];
  kernel.take(record.add(ownedBy('shop', '10.0.0.1', [1]), 0));
  kernel.take(record.add(ownedBy('dev', '10.0.0.2', ports(25)), 0));
  kernel.take(record.add(ownedBy('dev', '10.0.0.2', ports(5, 100)), 0));
  expect(kernel.ports('10.0.0.1')).toEqual([1]);
  expect(kernel.ports('10.0.0.2')).toEqual([...ports(5, 20), ...ports(5, 100)]);
});

it('cuts off the pods of flows that made room from every connection that the kernel has not seen begin', () => {
  const [kernel, record] = [new Kernel(), new EndedRecord({ ofNamespace: 20, all: 100 })];
  kernel.take(record.add(ownedBy('dev', '10.0.0.2', ports(10)), 0));
  expect(kernel.cut()).toEqual([]);
  kernel.take(record.add(ownedBy('dev', 'fd00::2', ports(1)), 0));
  expect(kernel.cut()).toEqual(['10.0.0.2']);
  kernel.take(record.add(ownedBy('dev', 'fd00::2', ports(20)), 0));
  expect(kernel.cut()).toEqual(['10.0.0.2', 'fd00::2']);
});

it('takes room from the namespaces with the most flows when many have their share', () => {
  const [kernel, record] = [new Kernel(), new EndedRecord({ ofNamespace: 20, all: 50 })];
  kernel.take(record.add(ownedBy('shop', '10.0.0.1', [1, 2]), 0));
  for (const tenant of ports(8))
    kernel.take(record.add(ownedBy(`t${String(tenant)}`, `10.1.0.${String(tenant)}`, ports(10)), 0));
  expect(kernel.ports('10.0.0.1')).toEqual([1, 2]);
  const left = ports(8).map((tenant) => kernel.ports(`10.1.0.${String(tenant)}`).length);
  expect(left.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(23);
  expect(Math.max(...left)).toBeLessThan(10);
});

it('needs a TCP connection that was not established for half an hour only, and does not remove what expires', () => {
  const [kernel, record] = [new Kernel(), new EndedRecord({ ofNamespace: 4, all: 100 })];
  const owner: FlowOwner = { namespace: 'dev', cut: parseAddress('10.0.0.2') };
  kernel.take(record.add([{ flow: flowOf('10.0.0.2', 1, { isUnsettled: true }), owner }], 0));
  kernel.take(record.add([{ flow: flowOf('10.0.0.2', 2), owner }], 0));
  const times = [...(kernel.elements.get('ended-v4') ?? [])].map(([text, ms]) => [text.split(' ')[2], ms]);
  expect(times).toEqual([
    ['1', 1_800_000],
    ['80', 1_800_000],
    ['2', 5 * DAY_MS],
    ['80', 5 * DAY_MS],
  ]);
  expect(record.add(ownedBy('dev', '10.0.0.2', [3]), 1_799_000).removed.size).toBe(0);
  const later = new EndedRecord({ ofNamespace: 4, all: 100 });
  later.add([{ flow: flowOf('10.0.0.2', 1, { isUnsettled: true }), owner }], 0);
  later.add(ownedBy('dev', '10.0.0.2', [2]), 1_900_000);
  expect(later.add(ownedBy('dev', '10.0.0.2', [3]), 1_900_000).removed.size).toBe(0);
});

it('goes on with what an earlier process has ended', () => {
  const [kernel, first, second] = [new Kernel(), new EndedRecord(), new EndedRecord({ ofNamespace: 20, all: 100 })];
  kernel.take(first.add(ownedBy('shop', '10.0.0.1', [1]), 0));
  kernel.take(first.add(ownedBy('dev', '10.0.0.2', ports(25)), 0));
  second.load(kernel.elements, 0, (ends) => {
    const isShop = ends.some(({ value }) => value === parseAddress('10.0.0.1').value);
    return { namespace: isShop ? 'shop' : 'dev', cut: parseAddress('10.0.0.2') };
  });
  kernel.take(second.add(ownedBy('dev', '10.0.0.2', [99]), 0));
  expect(kernel.ports('10.0.0.1')).toEqual([1]);
  expect(kernel.ports('10.0.0.2').length).toBeLessThanOrEqual(20);
  expect(kernel.ports('10.0.0.2')).toContain(99);
  expect(kernel.cut()).toEqual(['10.0.0.2']);
});

it('has nothing for protocols whose packets do not show that they begin no connection', () => {
  const udp = flowOf('10.0.0.1', 1);
  const flow = { ...udp, original: { ...udp.original, protocol: 17 } };
  const { added } = new EndedRecord().add([{ flow, owner: { namespace: 'shop', cut: undefined } }], 0);
  expect(added.size).toBe(0);
});

it('names what the kernel has lost, and nothing that has expired', () => {
  const [record, kernel] = [new EndedRecord({ ofNamespace: 4, all: 100 }), new Kernel()];
  kernel.take(record.add(ownedBy('shop', '10.0.0.1', [1]), 0));
  kernel.take(record.add(ownedBy('dev', '10.0.0.2', ports(4, 1)), 0));
  kernel.take(
    record.add([{ flow: flowOf('10.0.0.3', 9, { isUnsettled: true }), owner: { namespace: 'x', cut: undefined } }], 0),
  );
  expect(record.missing(kernel.elements, DAY_MS).added.size).toBe(0);
  const after = new Kernel();

  after.take(record.missing(new Map(), DAY_MS));

  expect(after.ports('10.0.0.1')).toEqual([1]);
  expect(after.ports('10.0.0.2')).toEqual(kernel.ports('10.0.0.2'));
  expect(after.cut()).toEqual(['10.0.0.2']);
  expect(after.ports('10.0.0.3')).toEqual([]);
  expect([...after.elements.values()].flatMap((set) => [...set.values()])).toContain(4 * DAY_MS);
});
