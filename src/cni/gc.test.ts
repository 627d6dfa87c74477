import { beforeEach, describe, expect, it } from 'vitest';
import { type MemoryNode, memoryNode } from '../../test/support/memory-node.ts';
import { podFactsOf } from '../../test/support/memory-orch.ts';
import { virtualClock } from '../base/clock.ts';
import { silentLog } from '../base/log.ts';
import type { Facts } from '../base/errors.ts';
import { openMemoryStore } from '../datastore/memory/memory-store.ts';
import { heldAddresses } from '../model/ip-block.ts';
import type { Attachment } from '../model/names.ts';
import type { ExecDelegate } from './delegate.ts';
import { noIsolation, type PodIsolation } from './pod-isolation.ts';

const never = new AbortController().signal;
const VALID = 'cni.dev/valid-attachments';
const TEN_MINUTES_MS = 600_000;
const POLICY = { policy: { type: 'orch' }, orch: { orch_api_root: 'http://127.0.0.1:1' } };

it('removes the policies of every attachment of its network that the runtime does not list', async () => {
  const node = await memoryNode();
  const attachments: Attachment[] = [
    { network: 'net', containerId: 'kept', ifName: 'eth0' },
    { network: 'net', containerId: 'removed', ifName: 'eth0' },
    { network: 'other', containerId: 'removed', ifName: 'eth0' },
  ];
  const collected: Attachment[] = [];
  const isolation: PodIsolation = {
    ...noIsolation('none'),
    collect: async (isRemoved) => {
      collected.push(...attachments.filter(isRemoved));
      return Promise.resolve(true);
    },
  };
  const conf = {
    name: 'net',
    cniVersion: '1.1.0',
    [VALID]: [{ containerID: 'kept', ifname: 'eth0' }],
  };
  expect(await node.call('GC', { conf, isolation })).toMatchObject({ status: 0 });
  expect(collected).toEqual([attachments[1]]);
});

describe('an attachment that the runtime does not list', () => {
  const clock = virtualClock(Date.parse('2026-01-01T00:00:00Z'));
  let node: MemoryNode;
  let warnings: [string, Facts | undefined][];
  beforeEach(async () => {
    node = await memoryNode(undefined, clock);
    warnings = [];
  });
  const log = { ...silentLog, warning: (event: string, facts?: Facts) => void warnings.push([event, facts]) };
  const facts = podFactsOf('shop', 'web');
  const add = async (conf: object = {}): Promise<void> => {
    const env = { CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=${facts.uid}` };
    expect(await node.call('ADD', { conf, env, pods: [facts] })).toMatchObject({ status: 0 });
  };
  const collect = async (conf: object = {}, pods = [facts]): Promise<void> => {
    expect(await node.call('GC', { conf: { [VALID]: [], ...conf }, pods, log })).toMatchObject({ status: 0 });
  };
  /** What is left of the pod: links, addresses and endpoints. */
  const left = async (): Promise<readonly number[]> => {
    await using store = openMemoryStore(node.database);
    const { blocks } = await store.listBlocks(never);
    const held = blocks.flatMap(({ value }) => heldAddresses(value));
    const { endpoints } = await store.listEndpoints(undefined, never);
    return [node.kernel.listHostLinks().length, held.length, endpoints.length];
  };

  it('stays whole while its network namespace exists, and is named', async () => {
    await add();
    await collect();
    expect(await left()).toEqual([1, 1, 1]);
    expect(warnings).toEqual([['attachments kept', expect.objectContaining({ count: 1, kept: ['shop/web'] })]]);
    expect(await node.keptNotes.list()).toMatchObject([
      { network: 'net', kept: [{ containerId: 'c1', pod: 'shop/web' }] },
    ]);
    await collect({ [VALID]: [{ containerID: 'c1', ifname: 'eth0' }] });
    expect(await node.keptNotes.list()).toEqual([]);
  });

  it('goes once its network namespace has ended, also while the kernel still has the link', async () => {
    await add();
    node.kernel.endNetns('/run/netns/pod');
    await collect();
    expect(await left()).toEqual([0, 0, 0]);
    expect([warnings, await node.keptNotes.list()]).toEqual([[], []]);
  });

  it('goes when its namespace lingers, and two calls ten minutes apart find that the API has no such pod', async () => {
    await add(POLICY);
    await collect(POLICY, []);
    expect(await left()).toEqual([1, 1, 1]);
    await clock.sleep(TEN_MINUTES_MS / 2, never);
    await collect(POLICY, []);
    expect(await left()).toEqual([1, 1, 1]);
    await clock.sleep(TEN_MINUTES_MS / 2, never);
    await collect(POLICY, [{ ...facts, uid: 'the next of the name' }]);
    expect(await left()).toEqual([0, 0, 0]);
  });

  it('stays when the API had its pod in between', async () => {
    await add(POLICY);
    for (const pods of [[], [facts], []]) {
      await collect(POLICY, pods);
      await clock.sleep(TEN_MINUTES_MS, never);
    }
    expect(await left()).toEqual([1, 1, 1]);
  });

  it('stays when the configuration does not use the API, however long', async () => {
    await add();
    for (let call = 0; call < 3; call += 1) {
      await collect({}, []);
      await clock.sleep(TEN_MINUTES_MS, never);
    }
    expect(await left()).toEqual([1, 1, 1]);
  });

  it('stays with another address manager, which is told to keep it', async () => {
    const calls: [string | undefined, unknown][] = [];
    const exec: ExecDelegate = async (_, { command, stdin }) => {
      const asked = JSON.parse(stdin) as Record<string, unknown>;
      calls.push([command, asked[VALID]]);
      const stdout = command === 'ADD' ? '{"cniVersion":"1.0.0","ips":[{"address":"10.90.0.2/24"}]}' : '';
      return Promise.resolve({ status: 0, stdout, stderr: '' });
    };
    const plugins = { listed: ['netplug'], exec };
    // A program that exists; the calls do not reach it.
    const conf = { ipam: { type: 'true' } };
    const env = { CNI_PATH: '/bin' };
    expect(await node.call('ADD', { conf, env, plugins })).toMatchObject({ status: 0 });
    expect(await node.call('GC', { conf: { ...conf, [VALID]: [] }, env, plugins })).toMatchObject({ status: 0 });
    expect(calls.slice(1)).toEqual([['GC', [{ containerID: 'c1', ifname: 'eth0' }]]]);
  });

  it.each([
    [
      'the list of the network',
      { plugins: { listed: ['netplug'], disablesGc: true, exec: async () => Promise.reject() } },
      {},
    ],
    ['the configuration itself', {}, { disableGC: true }],
    ['the configuration, as text', {}, { disableGC: 'true' }],
  ])('stays although its namespace has ended when %s sets disableGC', async (_, more, conf) => {
    await add();
    node.kernel.endNetns('/run/netns/pod');
    expect(await node.call('GC', { conf: { [VALID]: [], ...conf }, ...more })).toMatchObject({ status: 0, stdout: '' });
    expect(await left()).toEqual([1, 1, 1]);
    const asIpam = { program: 'netplug-ipam', conf: { [VALID]: [], ...conf }, ...more } as const;
    expect(await node.call('GC', asIpam)).toMatchObject({ status: 0 });
    expect(await left()).toEqual([1, 1, 1]);
  });
});
