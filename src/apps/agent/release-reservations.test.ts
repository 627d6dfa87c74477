import { describe, expect, it } from 'vitest';
import { virtualClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { seededRandom } from '../../base/random.ts';
import { type AttachmentRecords, memoryRecords } from '../../cni/attachment-records.ts';
import { parseAddress } from '../../net/address.ts';
import type { ServeCall } from './conversation.ts';
import { onePerContainer, type ServeOrdered } from './per-container.ts';
import { ReservationReleaser } from './release-reservations.ts';
import type { CallRequest } from './wire.ts';

const never = new AbortController().signal;
const NETWORK = { name: 'net', manager: 'static', conf: { type: 'netplug', name: 'net', cniVersion: '1.1.0' } };
const CALL: CallRequest = { kind: 'netplug', env: { CNI_COMMAND: 'ADD', CNI_CONTAINERID: 'c1' }, stdin: '' };

async function recorded(serve: ServeCall): Promise<{
  readonly releaser: ReservationReleaser;
  readonly links: Set<string>;
  readonly serveCall: ServeOrdered;
  readonly attachments: AttachmentRecords;
}> {
  const clock = virtualClock();
  const attachments = memoryRecords();
  await attachments.put({
    attachment: { network: 'net', containerId: 'c1', ifName: 'eth0' },
    pod: 'shop/web',
    at: new Date(clock.now() - 3_600_000).toISOString(),
    addressManager: 'static',
    addresses: [parseAddress('10.0.0.2')],
    floating: [],
    switches: [],
  });
  const links = new Set<string>();
  const serveCall = onePerContainer(serve, clock, () => undefined);
  const releaser = new ReservationReleaser({
    clock,
    random: seededRandom(1),
    log: silentLog,
    serveCall,
    attachments,
    listAttached: () => links,
    now: () => clock.now(),
    bootedAtMs: () => 0,
    tryLock: () => true,
    readNetworks: async () => Promise.resolve([NETWORK]),
    binDir: '/opt/cni/bin',
  });
  return { releaser, links, serveCall, attachments };
}

describe('the addresses of an attachment that ended without a DEL', () => {
  it('are released by a DEL with its pod, and tried again with the reason told until that succeeds', async () => {
    const served: CallRequest[] = [];
    const answers = [{ status: 1, stdout: '{"code": 11, "msg": "etcd\\u001b does not respond"}', stderr: '' }];
    const { releaser, attachments } = await recorded(async (request) => {
      served.push(request);
      // A DEL may fail after it has removed the record.
      await attachments.remove({ network: 'net', containerId: 'c1', ifName: 'eth0' });
      return Promise.resolve(answers.shift() ?? { status: 0, stdout: '', stderr: '' });
    });
    await expect(releaser.pass(never)).rejects.toThrow('etcd');
    expect(releaser.failures()).toEqual([
      'static still holds 10.0.0.2 of container "c1" in network "net", which no interface uses: etcd\\u001b does not respond',
    ]);
    await releaser.pass(never);
    expect(releaser.failures()).toEqual([]);
    expect(served.map(({ env, stdin }) => [env['CNI_COMMAND'], env['CNI_ARGS'], JSON.parse(stdin)])).toEqual(
      Array.from({ length: 2 }, () => ['DEL', 'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web', NETWORK.conf]),
    );
  });

  it('stay when an ADD of its container that was in progress has made the interface', async () => {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const served: (string | undefined)[] = [];
    const { releaser, links, serveCall } = await recorded(async ({ env }) => {
      served.push(env['CNI_COMMAND']);
      await promise;
      links.add('c1/eth0');
      return { status: 0, stdout: '', stderr: '' };
    });
    const add = serveCall(CALL, never);
    const pass = releaser.pass(never);
    // The pass has read what there is before the ADD ends.
    await new Promise((done) => setTimeout(done, 20));
    resolve(undefined);
    await Promise.all([add, pass]);
    expect(served).toEqual(['ADD']);
  });
});
