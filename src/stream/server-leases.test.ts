import { describe, expect, it } from 'vitest';
import { LeasesInMemory } from '../../test/support/typha-over-tls.ts';
import { virtualClock } from '../base/clock.ts';
import { NetplugError } from '../base/errors.ts';
import { silentLog } from '../base/log.ts';
import type { LeasedServer } from './server-lease.ts';
import { LeaseRenewal, type ServerLeases } from './server-leases.ts';

const entry = {
  name: 'a',
  addresses: ['192.0.2.1'],
  port: 5473,
  certificate: 'PEM',
  formats: { oldest: 1, newest: 1 },
  isLeaving: false,
};

/** Keeps a Lease for a minute, during which the server is current while `isCurrent` says so. */
async function keepFor60Seconds(
  isCurrent: (seconds: number) => boolean,
  leases: ServerLeases = new LeasesInMemory(),
): Promise<{ renewedAt: number[]; known: number }> {
  const over = new AbortController();
  const clock = virtualClock();
  const renewedAt: number[] = [];
  let known = 0;
  const ticking = {
    ...clock,
    sleep: async (ms: number, signal: AbortSignal) => {
      await clock.sleep(ms, signal);
      if (clock.now() >= 60_000) over.abort();
    },
  };
  const describe = (): LeasedServer | undefined =>
    isCurrent(clock.now() / 1000)
      ? { entry, release: '1', clients: 0, oldestClient: undefined, renewedMs: clock.now() }
      : undefined;
  const renewal = new LeaseRenewal({
    clock: ticking,
    log: silentLog,
    describe,
    onServers: (servers) => (known = servers.length),
    leases: {
      ...leases,
      write: async (server, signal) => {
        await leases.write(server, signal);
        renewedAt.push(server.renewedMs / 1000);
      },
      list: async (signal) => leases.list(signal),
    },
  });
  await renewal.run(over.signal);
  return { renewedAt, known };
}

describe('the renewal of the Lease of a server', () => {
  it('renews it every ten seconds, and knows the servers', async () => {
    expect(await keepFor60Seconds(() => true)).toEqual({ renewedAt: [0, 10, 20, 30, 40, 50], known: 1 });
  });

  it('writes it as soon as the server is current, and not while it is not', async () => {
    const { renewedAt } = await keepFor60Seconds((seconds) => seconds >= 3 && (seconds < 25 || seconds >= 45));
    expect(renewedAt).toEqual([3, 13, 23, 45, 55]);
  });

  it('goes on when the API is lost for a while', async () => {
    let tries = 0;
    const leases = new LeasesInMemory();
    const { renewedAt } = await keepFor60Seconds(() => true, {
      list: leases.list,
      remove: leases.remove,
      write: async (server) => {
        tries += 1;
        if (tries === 2) throw new NetplugError('store/unavailable', 'Cannot reach the API');
        await leases.write(server);
      },
    });
    expect(renewedAt).toEqual([0, 20, 30, 40, 50]);
  });
});
