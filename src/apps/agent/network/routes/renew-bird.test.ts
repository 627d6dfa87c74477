import { describe, expect, it } from 'vitest';
import { MemoryBird } from '../../../../../test/support/networked-node.ts';
import { type Clock, virtualClock } from '../../../../base/clock.ts';
import { createLog, type Log, silentLog } from '../../../../base/log.ts';
import type { SessionStatus } from '../../../../bgp/read-status.ts';
import { MemoryHostNetwork } from '../../../../../test/support/memory/memory-host-network.ts';
import { systemRandom } from '../../../../base/random.ts';
import { parseAddress } from '../../../../net/address.ts';
import { BirdRenewal, reasonToWait } from './renew-bird.ts';

const MINUTE_MS = 60_000;
const session = {
  name: 'peer_192_0_2_2_179',
  kind: 'mesh' as const,
  peerNode: 'b',
  peerAddress: parseAddress('192.0.2.2'),
  peerAs: 64_512,
  state: 'Established',
  sinceMs: 0,
  info: '',
  bfd: undefined,
  routesImported: 0,
  routesExported: 0,
  keepsRoutesS: 60,
};

describe('a restart of BIRD', () => {
  it('need not wait while all sessions stand and all peers keep routes, or without sessions', () => {
    expect(reasonToWait([session, session], 2 * MINUTE_MS)).toBeUndefined();
    expect(reasonToWait([], 0)).toBeUndefined();
  });

  it('need not wait for a peer that has been away for long', () => {
    const away = { ...session, state: 'Active', keepsRoutesS: 0 };
    expect(reasonToWait([session, away], 2 * MINUTE_MS)).toBeUndefined();
  });

  it.each([
    ['has come up', { sinceMs: 1 }, 'has changed its state within 2 minutes'],
    ['has gone down', { state: 'Active', sinceMs: 1 }, 'has changed its state within 2 minutes'],
    ['will come up', { sinceMs: 60 * MINUTE_MS }, 'has changed its state within 2 minutes'],
    ['came up without a time', { sinceMs: Number.NaN }, 'has changed its state within 2 minutes'],
    ['may end soon', { keepsRoutesS: 59 }, 'has a graceful restart time of 59 s, less than 60 s'],
  ])('waits for a session that %s', (_case, change, reason) => {
    const expected = `the session with 192.0.2.2 ${reason}`;
    expect(reasonToWait([session, { ...session, ...change }], 2 * MINUTE_MS)).toBe(expected);
  });

  it('waits for a peer that would drop routes by BFD, and not for one whose BFD is down', () => {
    expect(reasonToWait([session, { ...session, bfd: 'Up' }], 2 * MINUTE_MS)).toBe(
      'the peer of the session with 192.0.2.2 would take it for lost by BFD',
    );
    expect(reasonToWait([{ ...session, bfd: 'Down' }], 2 * MINUTE_MS)).toBeUndefined();
  });

  it('waits for a peer that drops routes', () => {
    expect(reasonToWait([session, { ...session, keepsRoutesS: 0 }], 2 * MINUTE_MS)).toBe(
      'the peer of the session with 192.0.2.2 does not support graceful restart',
    );
  });
});

describe('the renewal of BIRD', () => {
  it('restarts it each time that the host has got so many links', async () => {
    expect(await startsIn(60, { afterLinks: 20 })).toBe(1 + 2);
    expect(await startsIn(60, { afterLinks: 61 })).toBe(1);
    expect(await startsIn(600, { afterLinks: 0 })).toBe(1);
  });

  it('waits until what the agent wants is in force', async () => {
    expect(await startsIn(60, { afterLinks: 20, isInForce: false })).toBe(1);
  });

  it('says once why it waits, and warns once when BIRD has seen twice as many links', async () => {
    const lines: string[] = [];
    const sessions = [{ ...session, keepsRoutesS: 0 }];
    await startsIn(100, { afterLinks: 20, sessions, log: createLog('INFO', [(line) => lines.push(line)], () => 0) });
    expect(lines).toEqual([
      expect.stringMatching(/ INFO +BIRD restart postponed links=20 reason=".*not support graceful restart"/),
      expect.stringMatching(/ WARNING +BIRD restart postponed links=40 reason=/),
    ]);
  });

  it('waits for the peers', async () => {
    expect(await startsIn(60, { afterLinks: 20, sessions: [{ ...session, keepsRoutesS: 0 }] })).toBe(1);
    expect(await startsIn(60, { afterLinks: 20, sessions: [{ ...session, sinceMs: 40 * MINUTE_MS }] })).toBe(1 + 1);
  });
});

/** Returns how often BIRD starts in so many minutes, while the host gets a link per minute. */
async function startsIn(
  minutes: number,
  {
    afterLinks,
    sessions = [],
    isInForce = true,
    log = silentLog,
  }: {
    readonly afterLinks: number;
    readonly sessions?: readonly SessionStatus[];
    readonly isInForce?: boolean;
    readonly log?: Log;
  },
): Promise<number> {
  const stop = new AbortController();
  const host = new MemoryHostNetwork();
  const bird = new MemoryBird();
  bird.sessions = sessions;
  await bird.apply('');
  const time = virtualClock();
  const sleep: Clock['sleep'] = async (ms, signal) => {
    const before = time.now();
    await time.sleep(ms, signal);
    // As the reconciler of BGP does within a second.
    await bird.apply('');
    for (let at = before; at < time.now(); at += MINUTE_MS) host.addPodLink();
    if (time.now() >= minutes * MINUTE_MS) stop.abort();
  };
  const ports = { bird, host, clock: { ...time, sleep }, random: { ...systemRandom, int: () => 0 }, log };
  await new BirdRenewal(ports, { afterLinks, isInForce: () => isInForce }).run(stop.signal);
  return bird.starts;
}
