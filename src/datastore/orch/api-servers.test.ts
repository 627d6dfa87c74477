import { expect, it } from 'vitest';
import { TestClock } from '../../../test/support/enforcement-host.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { ApiServers } from './api-servers.ts';

const never = new AbortController().signal;

it('lists the servers behind the service of the API, seldom, and keeps those known while the API does not answer', async () => {
  const clock = new TestClock();
  const slice = (address: string): ApiObject => ({
    metadata: { name: 'kubernetes', namespace: 'default', labels: { 'kubernetes.io/service-name': 'kubernetes' } },
    endpoints: [{ addresses: [address] }],
    ports: [{ port: 6443 }],
  });
  let answer: readonly ApiObject[] | undefined = [slice('192.0.2.7'), slice('2001:db8::7')];
  let calls = 0;
  const list = async (): Promise<readonly ApiObject[]> => {
    calls += 1;
    if (answer === undefined) throw new Error('refused');
    return Promise.resolve(answer);
  };
  const servers = new ApiServers({ list }, clock);
  const known = ['https://192.0.2.7:6443', 'https://[2001:db8::7]:6443'];
  expect(await servers.origins(never)).toEqual(known);
  answer = undefined;
  expect([await servers.origins(never), calls]).toEqual([known, 1]);
  await clock.pass(600_000);
  expect([await servers.origins(never), await servers.origins(never), calls]).toEqual([known, known, 2]);
  answer = [slice('192.0.2.8')];
  await clock.pass(60_000);
  expect(await servers.origins(never)).toEqual(['https://192.0.2.8:6443']);
});
