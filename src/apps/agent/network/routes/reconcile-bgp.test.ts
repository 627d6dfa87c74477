import { afterEach, expect, it } from 'vitest';
import { bgpPeerOf } from '../../../../../test/support/bgp.ts';
import { poolOf } from '../../../../../test/support/fixtures.ts';
import { hostAt, podOn, startNode, stopNodes, worldWith } from '../../../../../test/support/networked-node.ts';
import { until } from '../../../../../test/support/until.ts';
import { parseAddress } from '../../../../net/address.ts';
import { type Clock, systemClock } from '../../../../base/clock.ts';

const never = new AbortController().signal;
/** A clock on which periods of minutes last a moment. */
const hurried: Clock = {
  ...systemClock,
  sleep: async (ms, signal) => systemClock.sleep(ms < 60_000 ? ms : 10, signal),
};

afterEach(stopNodes);

it('restarts a BIRD that was killed with the cached passwords while their Secret is unreadable', async () => {
  const { store } = await worldWith(poolOf('routed', '10.65.0.0/16'));
  const peer = (name: string, peerIP: string): ReturnType<typeof bgpPeerOf> =>
    bgpPeerOf(name, { peerIP, asNumber: 65_001, password: { secretKeyRef: { name, key: 'password' } } });
  await store.createResource(peer('known', '192.0.2.9'), never);
  const isAway = Promise.withResolvers<never>();
  isAway.promise.catch(() => undefined);
  const asked: string[] = [];
  const node = startNode('a', {
    store,
    host: hostAt('192.0.2.1/24'),
    readSecret: async (name) => {
      asked.push(name);
      return asked.includes('later') ? isAway.promise : Promise.resolve('correct horse');
    },
  });
  await until(() => node.bird.text.includes('password "correct horse"'), 'BIRD has the password');

  await store.createResource(peer('later', '192.0.2.10'), never);
  await until(() => asked.includes('later'), 'it is asked for another password');
  await store.deleteResource({ kind: 'BGPPeer', name: 'later' }, never);
  const before = node.bird.text;
  node.bird.die();
  await until(() => node.bird.isRunning, 'BIRD runs again');
  expect(node.bird.text).toBe(before);

  isAway.reject(new Error('the API is away'));
  await until(
    () => node.network.problems().some(({ text }) => text.includes('has the password read before')),
    'it says so',
  );
  expect(node.bird.text).toBe(before);
});

it('restarts BIRD after so many links of pods, unless it would not start BIRD again', async () => {
  const { store } = await worldWith(poolOf('routed', '10.65.0.0/16'));
  const host = hostAt('192.0.2.1/24');
  host.addPodLink();
  const { bird } = startNode('a', { store, host, clock: hurried, birdLinks: 3 });
  await until(() => bird.isRunning, 'BIRD runs');
  await until(() => bird.counts > 0, 'links are counted');
  for (let pod = 0; pod < 3; pod += 1) host.addPodLink();
  await until(() => bird.starts === 2, 'BIRD is restarted');

  await store.deleteResource({ kind: 'IPPool', name: 'routed' }, never);
  await until(() => !bird.text.includes('10.65.'), 'BIRD needs no pool');
  await until(() => bird.counts > 0, 'links are counted');
  for (let pod = 0; pod < 3; pod += 1) host.addPodLink();
  const counted = bird.counts;
  await until(() => bird.counts > counted + 3, 'links are counted again');
  expect([bird.isRunning, bird.starts]).toEqual([true, 2]);
});

it('announces no block of its own over the network of an interface, also one that comes later', async () => {
  const { store } = await worldWith(poolOf('routed', '10.65.0.0/16'));
  const host = hostAt('192.0.2.1/24');
  const { bird } = startNode('a', { store, host });
  const block = await podOn(store, 'a');
  const isAnnounced = (): boolean => bird.text.includes(`route ${block} blackhole`);
  await until(isAnnounced, 'the block is announced');
  const { addresses } = (await hostAt(`${block.split('/')[0]!}/28`).listInterfaces())[1]!;
  host.putInterface({ name: 'eth1', mtu: 1500, isUp: true, isLoopback: false, addresses });
  await until(() => !isAnnounced(), 'the block is no longer announced');
  host.removeInterface('eth1');
  await until(isAnnounced, 'the block is announced again');
  expect(bird.isRunning).toBe(true);
});

it('names the program on the port of BGP and what to do, and lets BIRD try again until it can listen', async () => {
  const { store } = await worldWith(poolOf('routed', '10.65.0.0/16'));
  const node = startNode('a', { store, host: hostAt('192.0.2.1/24'), clock: hurried });
  await until(() => node.bird.isRunning, 'BIRD runs');
  node.bird.portHolder = 'gobgpd (pid 77)';
  node.bird.sessions = [
    {
      name: 'peer_a',
      kind: 'global',
      peerNode: undefined,
      peerAddress: parseAddress('192.0.2.9'),
      peerAs: 64_513,
      state: 'Down',
      sinceMs: 0,
      info: 'Error: No listening socket',
      bfd: undefined,
      routesImported: 0,
      routesExported: 0,
      keepsRoutesS: 0,
    },
  ];
  const named = {
    code: 'bgp/port-taken',
    text: 'bgp: BIRD cannot listen on TCP port 179: gobgpd (pid 77) does',
    remedy: expect.stringContaining('listenPort'),
  };
  await until(() => node.network.problems().some(({ code }) => code === named.code), 'the agent notices');
  expect(node.network.problems()).toContainEqual(expect.objectContaining(named));
  node.bird.portHolder = undefined;
  await until(() => node.network.problems().length === 0, 'BIRD listens again');
  expect(node.bird.sessions).toEqual([]);
});
