import { expect, it } from 'vitest';
import { silentLog } from '../../../../base/log.ts';
import { formatAddress, parseAddress } from '../../../../net/address.ts';
import { TestClock } from '../../../../../test/support/enforcement-host.ts';
import { DatastoreServers } from './datastore-servers.ts';

const LOOK_MS = 10_000;

class World {
  readonly clock = new TestClock();
  /** Undefined while nothing is found. */
  found: readonly string[] | undefined = [];
  memory = '';
  changes = 0;

  start(): DatastoreServers {
    const servers = new DatastoreServers({
      clock: this.clock,
      log: silentLog,
      find: async () => {
        if (this.found === undefined) throw new Error('DNS does not answer');
        return Promise.resolve(this.found.map((text) => ({ address: parseAddress(text), protocol: 6, port: 8443 })));
      },
      load: () => this.memory,
      save: async (text) => {
        this.memory = text;
        return Promise.resolve();
      },
      onChange: () => (this.changes += 1),
    });
    void servers.run(new AbortController().signal);
    return servers;
  }
}

function shown({ current }: DatastoreServers): readonly string[] {
  return current.map(({ address, port }) => `${formatAddress(address)} ${String(port)}`);
}

it('follows the servers, keeps those of the last hour, and all while none are found', async () => {
  const world = new World();
  world.found = ['192.0.2.1'];
  const servers = world.start();
  await world.clock.pass(0);
  world.found = ['2001:db8::1'];
  await world.clock.pass(LOOK_MS);
  expect([shown(servers), world.changes]).toEqual([['192.0.2.1 8443', '2001:db8::1 8443'], 2]);
  world.found = undefined;
  await world.clock.pass(7_200_000);
  expect(shown(servers)).toHaveLength(2);
  world.found = ['2001:db8::1'];
  await world.clock.pass(LOOK_MS);
  expect([shown(servers), world.changes]).toEqual([['2001:db8::1 8443'], 3]);
});

it('begins with what the last process knew, and ignores what is no server', async () => {
  const world = new World();
  world.found = ['192.0.2.1'];
  world.start();
  await world.clock.pass(0);
  world.found = undefined;
  world.memory += 'half a li';
  expect(shown(world.start())).toEqual(['192.0.2.1 8443']);
});
