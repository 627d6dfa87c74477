import { expect, it } from 'vitest';
import { parseAddress } from '../net/address.ts';
import type { BirdReply } from './control-socket.ts';
import { hasBfd, isDeaf, readBfdStates, readSessions } from './read-status.ts';

const ANSWER = `2002 Name       Proto      Table      State  Since         Info
1002 device1    Device     ---        up     2026-11-21T13:04:01.070+0000
1002 peer_172_31_0_3_179 BGP        ---        up     2026-11-21T13:04:01.070+0000  Established
1006 Description:    mesh node-3
1006   BGP state:          Established
1006     Neighbor address: 172.31.0.3
1006     Neighbor AS:      64512
1006     Local capabilities
1006       Graceful restart
1006         Restart time: 120
1006     Neighbor capabilities
1006       Route refresh
1006       Graceful restart
1006         Restart time: 90
1006     Session:          internal multihop
1006   Channel ipv4
1006     Routes:         2 imported, 1 filtered, 3 exported, 1 preferred
1002 peer_172_31_0_9_179 BGP        ---        start  2026-11-21T13:04:01.070+0000  Active        Socket: Connection refused
1006 Description:    global
1006   BGP state:          Active
1006     Neighbor address: 172.31.0.9
1006     Neighbor AS:      65001
1006     Local capabilities
1006       Graceful restart
1006         Restart time: 120
1006     Neighbor capabilities
1006       Route refresh
1006     Session:          internal multihop
1006       Graceful restart
1006   Channel ipv4
1006     State:          DOWN
1002 unrelated  BGP        ---        start  2026-11-21T13:04:01.070+0000  Idle
1006     Neighbor address: 172.31.0.10
0000 `;

const BFD_ANSWER = `1020 bfd1:
1020 IP address                Interface  State      Since                         Interval  Timeout
1020 172.31.0.3                up0        Up         2026-11-21T13:04:01.070+0000     0.300    0.900
1020 fd00:172:31::3            ---        AdminDown  2026-11-21T13:04:01.070+0000     1.000    0.000
0000 `;

const reply = replyOf(ANSWER);

function replyOf(text: string): BirdReply {
  return text.split('\n').map((line) => ({ code: Number(line.slice(0, 4)), text: line.slice(5) }));
}

it('sessions are read with kind, state, time, last error and routes, and foreign sessions are skipped', () => {
  const sinceMs = Date.UTC(2026, 10, 21, 13, 4, 1, 70);
  expect(readSessions(reply, readBfdStates(replyOf(BFD_ANSWER)))).toEqual([
    {
      name: 'peer_172_31_0_3_179',
      kind: 'mesh',
      peerNode: 'node-3',
      peerAddress: parseAddress('172.31.0.3'),
      peerAs: 64_512,
      state: 'Established',
      sinceMs,
      info: '',
      bfd: 'Up',
      routesImported: 2,
      routesExported: 3,
      keepsRoutesS: 120,
    },
    {
      name: 'peer_172_31_0_9_179',
      kind: 'global',
      peerNode: undefined,
      peerAddress: parseAddress('172.31.0.9'),
      peerAs: 65_001,
      state: 'Active',
      sinceMs,
      info: 'Socket: Connection refused',
      bfd: undefined,
      routesImported: 0,
      routesExported: 0,
      keepsRoutesS: 0,
    },
  ]);
});

it('BFD is asked for only where BIRD has it, and read for both families', () => {
  const row = '1002 bfd1       BFD        ---        up     2026-11-21T13:04:01.070+0000  ';
  expect([hasBfd(reply), hasBfd(replyOf(row))]).toEqual([false, true]);
  expect([...readBfdStates(replyOf(BFD_ANSWER))]).toEqual([
    ['172.31.0.3', 'Up'],
    ['fd00:172:31::3', 'AdminDown'],
  ]);
});

it('a session that cannot listen is down, and says why', () => {
  const lines = [
    '1002 peer_a     BGP        ---        down   2026-12-01T01:51:58.334+0000  Error: No listening socket',
    '1006 Description:    global',
    '1006   BGP state:          Down',
    '1006     Neighbor address: 192.0.2.9',
  ];
  const [session] = readSessions(replyOf(lines.join('\n')), new Map());
  expect(session).toMatchObject({ state: 'Down', info: 'Error: No listening socket' });
  expect(session !== undefined && isDeaf(session)).toBe(true);
});
