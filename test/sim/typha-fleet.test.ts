// Thousands of clients as objects: what holds of a fleet here is exact, whatever the machine does.
import { afterEach, describe, expect, it } from 'vitest';
import { inExtent } from '../runs.ts';
import { watchedByAgent, watchesOfFleet } from '../support/agent-watches.ts';
import { followedPool, FollowReader, FollowSource } from '../support/follow-source.ts';
import { Fleet, type FleetServer } from '../support/typha-fleet.ts';

const NODES = inExtent({ everyday: 240, soak: 5000 });
const SERVERS = inExtent({ everyday: 3, soak: 11 });
const RECORDS = 5;
const TOPIC = 'resources/IPPool';
const readers: FollowReader[] = [];
afterEach(async () => {
  for (const reader of readers.splice(0)) await reader.end();
});

/** A fleet whose clients have all begun. */
async function fleetOf(servers: number): Promise<{ fleet: Fleet; source: FollowSource; old: FleetServer[] }> {
  const source = new FollowSource();
  source.put(...Array.from({ length: RECORDS }, (_, index) => followedPool(`p${String(index)}`)));
  const fleet = new Fleet(source, TOPIC);
  const old = Array.from({ length: servers }, (_, index) => fleet.startServer(`old-${String(index)}`, 'old'));
  fleet.announce();
  for (let node = 0; node < NODES; node += 1) readers.push(new FollowReader(fleet.addClient(`node-${String(node)}`)));
  await fleet.time.pass(5000);
  return { fleet, source, old };
}

const connected = (fleet: Fleet): number => fleet.stores.filter(({ standing }) => standing.server !== undefined).length;
const changes = (): number =>
  readers.reduce((sum, { events }) => sum + events.filter(({ kind }) => kind === 'changes').length, 0);
const sizes = (fleet: Fleet): number[] =>
  fleet.servers.filter(({ isUp }) => isUp).map(({ service }) => service.sessions.size);

/** A minute and a half with 5000 agents and nothing else. */
describe('a fleet of agents', () => {
  it('is spread evenly, with a list of servers for each agent and one snapshot for each server', async () => {
    const { fleet, old } = await fleetOf(SERVERS);
    expect(connected(fleet)).toBe(NODES);
    expect(Math.max(...sizes(fleet)) / (NODES / SERVERS)).toBeLessThan(1.25);
    expect(fleet.lists).toBe(NODES);
    for (const { service } of old) for (const { records } of service.topics) expect(records.counts.built).toBe(1);
    expect(readers.every(({ keys }) => keys.length === RECORDS)).toBe(true);
  });

  it('moves once for each agent when all servers are replaced, is never without a stream, and yields no record again', async () => {
    const { fleet, source, old } = await fleetOf(SERVERS);
    const listed = fleet.lists;
    let fewest = NODES;
    const note = (): void => {
      fewest = Math.min(fewest, connected(fleet));
    };
    // All new ones are there before the first old one leaves; then one after the other does.
    for (let index = 0; index < SERVERS; index += 1) fleet.startServer(`new-${String(index)}`, 'new');
    await fleet.time.pass(1000, note);
    fleet.announce();
    await fleet.time.pass(10_000, note);
    for (const server of old) {
      server.entry.isLeaving = true;
      fleet.announce();
      server.service.leave(48_000);
      await fleet.time.pass(60_000, note);
      expect(server.service.sessions.size).toBe(0);
      fleet.kill(server);
      fleet.announce();
    }
    await fleet.time.pass(70_000, note);
    expect(fewest).toBe(NODES);
    expect(Math.max(...fleet.stores.map(({ standing }) => standing.moves))).toBe(1);
    expect(Math.min(...fleet.stores.map(({ standing }) => standing.moves))).toBe(1);
    expect(fleet.stores.reduce((sum, { standing }) => sum + standing.differed, 0)).toBe(0);
    expect(changes()).toBe(0);
    expect(fleet.lists).toBe(listed);
    expect(Math.max(...sizes(fleet)) / (NODES / SERVERS)).toBeLessThan(1.25);
    source.put(followedPool('last'));
    await fleet.time.pass(1000);
    expect(readers.every(({ keys }) => keys.includes('last'))).toBe(true);
  });

  it('has its streams again within six seconds of the death of a server, without a list', async () => {
    const { fleet, old } = await fleetOf(SERVERS);
    const listed = fleet.lists;
    const [dead] = old;
    const lost = dead!.service.sessions.size;
    expect(lost).toBeGreaterThan(0);
    fleet.kill(dead!);
    await fleet.time.pass(6000);
    expect(connected(fleet)).toBe(NODES);
    expect(fleet.stores.reduce((sum, { standing }) => sum + standing.moves, 0)).toBe(lost);
    expect(changes()).toBe(0);
    expect(fleet.lists).toBe(listed);
  });

  it('moves its share to a server that is new, and nobody else', async () => {
    const { fleet } = await fleetOf(SERVERS);
    const added = fleet.startServer('added', 'old');
    await fleet.time.pass(1000);
    fleet.announce();
    await fleet.time.pass(70_000);
    const moved = fleet.stores.reduce((sum, { standing }) => sum + standing.moves, 0);
    expect(moved).toBe(added.service.sessions.size);
    expect(moved).toBeLessThan((1.1 * NODES) / (SERVERS + 1));
    expect(Math.max(...sizes(fleet)) / (NODES / (SERVERS + 1))).toBeLessThan(1.25);
  });

  it('has three watches of the API for each agent, however many there are', () => {
    expect(watchedByAgent()).toEqual(['/api/v1/nodes', '/api/v1/pods', '/apis/netplug.io/v3/workloadendpoints']);
    expect(watchesOfFleet(1000, 3)).toBe(3063);
    expect(watchesOfFleet(5000, 11)).toBe(15_231);
  });
});
