import { afterEach, expect, it } from 'vitest';
import { bgpPeerOf } from '../../../../test/support/bgp.ts';
import { poolOf } from '../../../../test/support/fixtures.ts';
import { hostAt, startNode, stopNodes, worldWith } from '../../../../test/support/networked-node.ts';
import { until } from '../../../../test/support/until.ts';

const never = new AbortController().signal;

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
    () => node.network.problems().some((text) => text.includes('has the password read before')),
    'it says so',
  );
  expect(node.bird.text).toBe(before);
});
