import { MemoryPolicyFilter } from '../support/memory/memory-policy-filter.ts';
import { parseAddress } from '../../src/net/address.ts';
import { packetReportsContract } from './suites/dataplane/packet-reports.ts';

packetReportsContract('memory', async () => {
  const filter = new MemoryPolicyFilter();
  const packetTo = (to: string) => {
    const address = parseAddress(to);
    return { source: address, destination: address, state: 'new', isToHost: true } as const;
  };
  return {
    filter,
    reports: filter,
    sendUdp: async (to, port, count) => {
      for (let index = 0; index < count; index += 1)
        filter.judge('input', { ...packetTo(to), protocol: 17, ports: { source: 40_000 + index, destination: port } });
    },
    ping: async (to) => {
      const isV4 = to === '127.0.0.1';
      const icmp = { type: isV4 ? 8 : 128, code: 0 };
      filter.judge('input', { ...packetTo(to), protocol: isV4 ? 1 : 58, icmp });
    },
    [Symbol.asyncDispose]: async () => {},
  };
});
