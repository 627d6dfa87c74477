import { describe, expect, it } from 'vitest';
import type { PacketReport, PacketReports } from '../../../../src/dataplane/packet-reports.ts';
import type { FilterTable, PolicyFilter } from '../../../../src/dataplane/policy-filter.ts';
import { formatAddress } from '../../../../src/net/address.ts';
import { until } from '../../../support/until.ts';

/** A fresh host with the addresses 127.0.0.1 and ::1. */
export interface PacketReportsFixture extends AsyncDisposable {
  readonly filter: PolicyFilter;
  readonly reports: PacketReports;
  /** Sends so many UDP packets, one per source port, from the host to itself. */
  sendUdp(to: '127.0.0.1' | '::1', port: number, count: number): Promise<void>;
  /** Sends one echo request from the host to itself. */
  ping(to: '127.0.0.1' | '::1'): Promise<void>;
}

const GROUP = 4786;

/** What every PacketReports does. */
export function packetReportsContract(name: string, makeFixture: () => Promise<PacketReportsFixture>): void {
  describe(`packet reports contract (${name})`, () => {
    it.each(['127.0.0.1', '::1'] as const)('reports prefix and headers of packets to %s', async (address) => {
      await using host = await makeFixture();
      await host.filter.apply(reportingTable('rule-a'), { signal: new AbortController().signal });
      const reports: PacketReport[] = [];
      using _watch = host.reports.watch(GROUP, (report) => reports.push(report));
      await host.sendUdp(address, 5300, 1);
      await until(() => reports.length > 0, 'the datagram is reported');
      expect(shown(reports[0])).toEqual({ prefix: 'rule-a', from: address, to: address, protocol: 17, port: 5300 });
      reports.length = 0;
      await host.ping(address);
      await until(() => reports.length > 0, 'the ping is reported');
      const isV4 = address === '127.0.0.1';
      expect(shown(reports[0])).toEqual({
        prefix: 'rule-a',
        from: address,
        to: address,
        protocol: isV4 ? 1 : 58,
        icmp: { type: isV4 ? 8 : 128, code: 0 },
      });
    });

    it('delivers or counts every report of many', async () => {
      await using host = await makeFixture();
      await host.filter.apply(reportingTable('rule-a'), { signal: new AbortController().signal });
      let [arrived, lost] = [0, 0];
      using _watch = host.reports.watch(GROUP, (report) => {
        if (report.kind === 'packet') arrived += 1;
        if (report.kind === 'lost') lost += report.packets;
      });
      await host.sendUdp('127.0.0.1', 5300, 5000);
      await until(
        () => arrived + lost === 5000,
        () => `all are counted: ${String(arrived)} + ${String(lost)}`,
      );
      expect(arrived).toBeGreaterThan(0);
    });

    it('has one listener per group, and another one after its end', async () => {
      await using host = await makeFixture();
      await host.filter.apply(reportingTable('rule-b'), { signal: new AbortController().signal });
      const first: PacketReport[] = [];
      const second: PacketReport[] = [];
      const listen = (into: PacketReport[]) => host.reports.watch(GROUP, (report) => into.push(report));
      const watch = listen(first);
      expect(() => listen(second)).toThrow(expect.objectContaining({ code: 'kernel/failed' }));
      using _other = host.reports.watch(GROUP + 1, () => undefined);
      watch[Symbol.dispose]();
      let again: Disposable | undefined;
      // The kernel frees the group when the thread that reads it has closed the socket.
      await until(() => {
        try {
          again = listen(second);
        } catch {
          return false;
        }
        return true;
      }, 'the group is free');
      using _again = again;
      await host.sendUdp('127.0.0.1', 5300, 1);
      await until(() => second.length > 0, 'the second listener is called');
      expect(first).toEqual([]);
    });
  });
}

/** Reports and drops what the host receives that is not of a known flow. */
function reportingTable(prefix: string): FilterTable {
  const rules = [{ id: prefix, parts: [{ kind: 'report', group: GROUP, prefix } as const, { kind: 'drop' } as const] }];
  const chain = { hook: { type: 'filter', hook: 'input', priority: 0 } as const, rules };
  return { name: 'reporting', chains: new Map([['input', chain]]), sets: new Map() };
}

function shown(report: PacketReport | undefined): unknown {
  if (report?.kind !== 'packet') return report;
  const { prefix, headers } = report;
  return {
    prefix,
    from: formatAddress(headers.source),
    to: formatAddress(headers.destination),
    protocol: headers.protocol,
    port: headers.ports?.destination,
    icmp: headers.icmp,
  };
}
