import { expect, it } from 'vitest';
import { Registration } from './registration.ts';

it('registers the node when its network works, when the MTU changes, and after a failure', async () => {
  const offers: (number | undefined)[] = [];
  const registration = new Registration({
    register: async ({ mtu }) => {
      offers.push(mtu);
      return Promise.resolve();
    },
  });
  await registration.register({ isFailing: true, mtu: 1450 });
  expect([registration.isDone, offers]).toEqual([false, []]);
  for (const mtu of [1450, 1450, 1400]) await registration.register({ isFailing: false, mtu });
  await registration.register({ isFailing: true, mtu: 1400 });
  expect([registration.isDone, offers]).toEqual([true, [1450, 1400]]);
  await registration.register({ isFailing: false, mtu: 1400 });
  expect(offers).toEqual([1450, 1400, 1400]);
});
