import { expect, it } from 'vitest';
import { type Addon, loadAddon } from '../../src/dataplane/linux/addon.ts';
import { applyPodNetwork } from '../../src/dataplane/linux/apply.ts';
import { LinkDeleter } from '../../src/dataplane/linux/delete-links.ts';
import { parseAddress } from '../../src/net/address.ts';
import { networkOf } from '../contract/suites/dataplane/kernel.ts';
import { enterNetns, newNetns } from '../support/netns.ts';

/** Look, make the pair, settings, up, forwarding, pod's end, route to the pod, carrier of either end; one to spare. */
const MOST_EXCHANGES = 10;

it.each([
  ['one family', ['10.65.0.1']],
  ['both families', ['10.65.0.1', 'fd00::1']],
])('a pod of %s is connected in a fixed number of exchanges with the kernel', async (_, addresses) => {
  const { addon, counted } = counting(loadAddon());
  await using host = await newNetns();
  await using pod = await newNetns();
  const inside = enterNetns(host);
  try {
    const ports = {
      addon,
      deleter: new LinkDeleter(addon),
      netnsOptions: { allowOwn: false },
      sourceCheck: 'strict',
      forwarding: {},
    } as const;
    const network = { ...networkOf(pod.path), addresses: addresses.map(parseAddress) };
    await applyPodNetwork(ports, network, new AbortController().signal);
  } finally {
    inside.leave();
  }
  expect(counted.exchanges).toBeLessThanOrEqual(MOST_EXCHANGES);
});

function counting(addon: Addon): { addon: Addon; counted: { exchanges: number } } {
  const counted = { exchanges: 0 };
  const exchange: Addon['exchange'] = (...call) => {
    counted.exchanges += 1;
    return addon.exchange(...call);
  };
  return { addon: { ...addon, exchange }, counted };
}
