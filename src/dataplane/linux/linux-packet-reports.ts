import type { PacketReport, PacketReports } from '../packet-reports.ts';
import { type Addon, loadAddon } from './addon.ts';
import { decodeReplies, encodeMessage } from './netlink.ts';
import { listenToGroup, reportReader } from './report-messages.ts';
import { kernelFailure, refusal, verdictOf } from './route-socket.ts';

/** Room for the headers of IPv6 with extensions, and for ports. */
const PACKET_BYTES = 128;
const SEQUENCE = 1;
const ENOBUFS = 105;
const WHAT = 'listen to reported packets';

/** Reports of the packet filter in the network namespace of the calling thread; `addonPath` as for `loadAddon`. */
export function linuxPacketReports(addonPath?: string): PacketReports {
  return {
    watch: (group, onReport) => {
      const addon = loadAddon(addonPath);
      const fd = addon.openFilterSocket();
      if (fd < 0) throw kernelFailure('open a netfilter socket', -fd);
      const answer = addon.exchange(fd, encodeMessage(listenToGroup(group, PACKET_BYTES), SEQUENCE));
      const failure =
        typeof answer === 'number'
          ? { errno: -answer, explanation: undefined }
          : decodeReplies(answer, SEQUENCE, 1).find(({ errno }) => errno !== 0);
      if (failure !== undefined) {
        addon.close(fd);
        throw refusal(WHAT, failure);
      }
      return monitor(addon, fd, onReport);
    },
  };
}

function monitor(addon: Addon, fd: number, onReport: (report: PacketReport) => void): Disposable {
  const read = reportReader();
  let isOver = false;
  const end = addon.monitorSocket(fd, (note) => {
    if (isOver) return;
    if (typeof note !== 'number') for (const report of read(note)) onReport(report);
    // The kernel has dropped messages: the next ones show how many.
    else if (-note !== ENOBUFS)
      onReport({ kind: 'ended', reason: verdictOf({ errno: -note, explanation: undefined }) });
  });
  if (end < 0) throw kernelFailure(WHAT, -end);
  return {
    [Symbol.dispose]: () => {
      if (!isOver) addon.close(end);
      isOver = true;
    },
  };
}
