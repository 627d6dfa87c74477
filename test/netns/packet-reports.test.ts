import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { linuxPacketReports } from '../../src/dataplane/linux/linux-packet-reports.ts';
import { NftPolicyFilter } from '../../src/dataplane/linux/nft-policy-filter.ts';
import { packetReportsContract } from '../contract/suites/dataplane/packet-reports.ts';
import { enterNetns, newNetns } from '../support/netns.ts';

packetReportsContract('linux', async () => {
  const scope = new AsyncDisposableStack();
  const netns = scope.use(await newNetns());
  const inside = enterNetns(netns);
  scope.defer(() => inside.leave());
  return {
    filter: scope.use(NftPolicyFilter.open()),
    reports: linuxPacketReports(),
    sendUdp: async (to, port, count) => {
      const socket = createSocket(to.includes(':') ? 'udp6' : 'udp4');
      socket.bind(0);
      await once(socket, 'listening');
      for (let sent = 0; sent < count; sent += 1) {
        await new Promise((resolve) => socket.send('x', port, to, resolve));
        if (sent % 500 === 0) await sleep(1);
      }
      socket.close();
    },
    ping: async (to) => void (await netns.exec('ping', '-n', '-c', '1', '-W', '1', to).catch(() => undefined)),
    [Symbol.asyncDispose]: async () => scope.disposeAsync(),
  };
});
