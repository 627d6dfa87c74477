import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MemoryChainedState } from '../../../../../test/support/memory/memory-chained-state.ts';
import { recordText } from '../../../../../test/support/runtime-record.ts';
import { virtualClock } from '../../../../base/clock.ts';
import { silentLog } from '../../../../base/log.ts';
import { HOST_MAC } from '../../../../net/mac.ts';
import type { HostLink } from '../../../../dataplane/kernel.ts';
import { findRuntimeRecord } from '../../../../install/host/runtime-records.ts';
import { type HostPortPorts, HostPortRestorer } from './restore-host-ports.ts';

const never = new AbortController().signal;
const OWNER = { network: 'k8s-pod-network', containerId: 'c1', ifName: 'eth0' };
const LINK: HostLink = {
  name: 'npl1',
  index: 7,
  mac: HOST_MAC,
  mtu: 1500,
  isUp: true,
  owner: OWNER,
  addresses: [],
};
const RECORD = 'k8s-pod-network-c1-eth0';
const BOTH = [4, 6] as const;

let folder: string;
let links: HostLink[];
let chained: MemoryChainedState;
let calls: string[];
/** What the plugin does besides its work. */
/** The namespaces with which the plugin was called. */
let namespaces: string[];
let behindLink: string | undefined;
let during: (command: string, containerId: string) => string | undefined;
let clock: ReturnType<typeof virtualClock>;
let ports: HostPortRestorer;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-ports-'));
  await writeFile(join(folder, RECORD), recordText());
  links = [LINK];
  chained = new MemoryChainedState();
  chained.mapPorts(OWNER, BOTH);
  [calls, namespaces, behindLink] = [[], [], undefined];
  during = () => undefined;
  clock = virtualClock(0);
  const callPlugin: HostPortPorts['callPlugin'] = async ({ command, record }) => {
    calls.push(command);
    namespaces.push(record.netns);
    const failure = during(command, record.containerId);
    if (failure === undefined && command === 'ADD') chained.mapPorts(record, BOTH);
    if (failure === undefined && command === 'DEL') chained.unmapPorts(record);
    return Promise.resolve(failure);
  };
  const findRecord: HostPortPorts['findRecord'] = async (attachment) => findRuntimeRecord(folder, attachment);
  const findNetns = (): string | undefined => behindLink;
  const made = { listLinks: () => links, chained, findRecord, findNetns, callPlugin, clock, log: silentLog };
  ports = new HostPortRestorer(made, () => undefined);
  await ports.reconcile(never);
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

/** Looks, and again after the time. */
async function reconcileFor(ms: number): Promise<void> {
  await ports.reconcile(never);
  await clock.sleep(ms, never);
  await ports.reconcile(never);
}

describe('the host ports of a pod', () => {
  it('are mapped by an ADD of the plugin when they are missing for a second, and left alone otherwise', async () => {
    await reconcileFor(60_000);
    expect(calls).toEqual([]);
    chained.flush();
    await ports.reconcile(never);
    expect(calls).toEqual([]);
    await reconcileFor(1000);
    await reconcileFor(60_000);
    expect(calls).toEqual(['ADD']);
    expect(ports.problems).toEqual([]);
  });

  it('are removed first when a part of their rules is left, so that the plugin adds none twice', async () => {
    chained.flush();
    chained.mapPorts(OWNER, [4]);
    await reconcileFor(1000);
    expect(calls).toEqual(['DEL', 'ADD']);
  });

  it('are mapped in the namespace behind the link when the runtime has recorded none, and kept as they are without one', async () => {
    await writeFile(join(folder, RECORD), recordText({ netns: undefined }));
    links = [{ ...LINK, index: 8 }];
    chained.flush();
    chained.mapPorts(OWNER, [4]);
    await reconcileFor(1000);
    // An ADD cannot be called without one.
    expect(calls).toEqual([]);
    expect(ports.problems).toEqual([
      {
        text: expect.stringMatching(/pod "shop\/web".* have lost rules .* has not recorded the network namespace/),
        remedy: 'Delete the pod so that its controller makes another',
      },
    ]);
    behindLink = '/proc/7/ns/net';
    await reconcileFor(10_000);
    expect([calls, namespaces]).toEqual([
      ['DEL', 'ADD'],
      ['', '/proc/7/ns/net'],
    ]);
    await ports.reconcile(never);
    expect(ports.problems).toEqual([]);
  });

  it('are not added a second time when what is left of them cannot be removed', async () => {
    chained.flush();
    chained.mapPorts(OWNER, [4]);
    during = (command) => (command === 'DEL' ? 'portmap: no iptables' : undefined);
    await reconcileFor(1000);
    expect(calls).toEqual(['DEL']);
    expect(ports.problems).toEqual([
      expect.objectContaining({ text: expect.stringContaining('cannot be mapped again: portmap: no iptables') }),
    ]);
  });

  it('are not mapped for a pod whose DEL has removed them and then its link', async () => {
    chained.unmapPorts(OWNER);
    await ports.reconcile(never);
    links = [];
    await reconcileFor(60_000);
    expect(calls).toEqual([]);
  });

  it('do not stay mapped when the pod ends during the ADD, or soon after it by a DEL that had begun before', async () => {
    chained.unmapPorts(OWNER);
    during = (command) => {
      if (command === 'ADD') links = [];
      return undefined;
    };
    await reconcileFor(1000);
    expect(calls).toEqual(['ADD', 'DEL']);
    expect(await chained.listPortRules()).toEqual([]);
    [links, during] = [[{ ...LINK, index: 8 }], () => undefined];
    await reconcileFor(1000);
    links = [];
    await ports.reconcile(never);
    expect(calls).toEqual(['ADD', 'DEL', 'ADD', 'DEL']);
    expect(await chained.listPortRules()).toEqual([]);
  });

  it('are unmapped when a pod has gone and its own DEL failed, until that succeeds', async () => {
    links = [];
    during = () => 'portmap: no iptables';
    await ports.reconcile(never);
    expect(ports.problems).toEqual([
      expect.objectContaining({
        text: 'host ports 8081/tcp of pod "shop/web" (container "c1"), which has gone, are still mapped: portmap: no iptables',
      }),
    ]);
    during = () => undefined;
    await clock.sleep(10_000, never);
    await ports.reconcile(never);
    expect(calls).toEqual(['DEL', 'DEL']);
    expect([ports.problems, await chained.listPortRules()]).toEqual([[], []]);
  });

  it('of a pod that has gone are unmapped after those of the living are mapped, less and less often while that fails', async () => {
    const [other, called]: [HostLink, string[]] = [{ ...LINK, index: 8, owner: { ...OWNER, containerId: 'c2' } }, []];
    await writeFile(join(folder, 'k8s-pod-network-c2-eth0'), recordText({ containerId: 'c2' }));
    links = [LINK, other];
    await ports.reconcile(never);
    await clock.sleep(1000, never);
    links = [other];
    during = (command, containerId) => {
      called.push(`${command} ${containerId}`);
      return command === 'DEL' ? 'portmap: no iptables' : undefined;
    };
    while (clock.monotonic() < 100_000) await reconcileFor(1000);
    expect(called).toEqual(['ADD c2', 'DEL c1', 'DEL c1', 'DEL c1', 'DEL c1']);
  });

  it('stay mapped when its container has another link', async () => {
    links = [{ ...LINK, index: 8 }];
    await reconcileFor(60_000);
    expect(calls).toEqual([]);
  });

  it('are a problem with the reason while the plugin fails, which is called less and less often', async () => {
    chained.flush();
    during = () => 'portmap: no iptables';
    while (clock.monotonic() < 100_000) await reconcileFor(1000);
    expect(calls).toEqual(['ADD', 'ADD', 'ADD', 'ADD']);
    expect(ports.problems).toEqual([
      {
        text: 'host ports 8081/tcp of pod "shop/web" (container "c1") have lost rules and cannot be mapped again: portmap: no iptables',
        remedy: 'Correct what the plugin names, or delete the pod so that its controller makes another',
      },
    ]);
    during = () => undefined;
    await reconcileFor(100_000);
    await ports.reconcile(never);
    expect(ports.problems).toEqual([]);
  });

  it('are mapped once where rules are never visible, and again and again where they were', async () => {
    chained.mapPorts = () => undefined;
    chained.flush();
    while (clock.monotonic() < 100_000) await reconcileFor(1000);
    expect(calls).toEqual(['ADD', 'ADD', 'ADD', 'ADD']);
    links = [{ ...LINK, index: 8 }];
    calls = [];
    while (clock.monotonic() < 200_000) await reconcileFor(1000);
    expect([calls, ports.problems]).toEqual([['ADD'], []]);
  });

  it('that a pod does not have cost nothing', async () => {
    await writeFile(join(folder, RECORD), recordText({ capabilityArgs: {} }));
    links = [{ ...LINK, index: 9 }];
    chained.flush();
    chained.listPortRules = async () => Promise.reject(new Error('was read'));
    await reconcileFor(60_000);
    expect([calls, ports.problems]).toEqual([[], []]);
  });
});
