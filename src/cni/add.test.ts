import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { NetplugError } from '../base/errors.ts';
import { UNREADABLE } from '../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../datastore/memory/memory-store.ts';
import type { Store } from '../datastore/store.ts';
import { podFactsOf } from '../../test/support/memory-orch.ts';
import { memoryNode } from '../../test/support/memory-node.ts';
import { overriding } from '../../test/support/overriding.ts';
import { until } from '../../test/support/until.ts';
import type { ExecDelegate } from './delegate.ts';
import { noIsolation, type PodIsolation } from './pod-isolation.ts';

it('releases the endpoint of a pod whose link cannot be created', async () => {
  const node = await memoryNode();
  const endpoints = new Set<string>();
  const isolation: PodIsolation = {
    ...noIsolation('none'),
    isOn: true,
    isolate: async ({ metadata }) => {
      endpoints.add(metadata.name);
      return Promise.resolve({ state: 'in force' });
    },
    release: async ({ metadata }) => {
      return Promise.resolve(endpoints.delete(metadata.name));
    },
  };
  node.kernel.failAt('create-link');
  expect(await node.call('ADD', { isolation })).not.toMatchObject({ status: 0 });
  expect(endpoints.size).toBe(0);
  expect(await node.call('ADD', { isolation })).toMatchObject({ status: 0 });
  expect(endpoints.size).toBe(1);
});

const OTHER_NETNS = '/run/netns/other';

/** Isolates pods, and knows which endpoints it has, and which addresses it was asked for. */
class Isolator {
  readonly endpoints = new Set<string>();
  readonly asked: string[] = [];
  readonly #first = Promise.withResolvers<void>();

  /** Resolves when it was asked for a pod. */
  get first(): Promise<void> {
    return this.#first.promise;
  }

  readonly isolation: PodIsolation = {
    ...noIsolation('none'),
    isOn: true,
    isolate: async ({ metadata, spec }) => {
      this.endpoints.add(metadata.name);
      this.asked.push(...spec.ipNetworks);
      this.#first.resolve();
      return Promise.resolve({ state: 'in force' });
    },
    release: async ({ metadata }) => Promise.resolve(this.endpoints.delete(metadata.name)),
  };
}

it('has the policies of a pod enforced while its addresses are still being recorded, once', async () => {
  const node = await memoryNode();
  const isolator = new Isolator();
  // As a node that decides alone, and whose journal takes as long as the policies.
  const store = (inner: Store): Store =>
    overriding(inner, {
      commit: async (changes, signal, onDecided) => {
        onDecided?.();
        await isolator.first;
        return inner.commit(changes, signal);
      },
    });
  expect(await node.call('ADD', { isolation: isolator.isolation, store })).toMatchObject({ status: 0 });
  expect(isolator.asked).toHaveLength(1);
});

it('enforces the policies of a pod anew when others got the addresses that were decided first', async () => {
  const node = await memoryNode();
  node.kernel.addNetns(OTHER_NETNS);
  const isolator = new Isolator();
  let isTaken = false;
  const store = (inner: Store): Store =>
    overriding(inner, {
      commit: async (changes, signal, onDecided) => {
        onDecided?.();
        if (isTaken) return inner.commit(changes, signal);
        isTaken = true;
        await node.call('ADD', { env: { CNI_CONTAINERID: 'other', CNI_NETNS: OTHER_NETNS, CNI_ARGS: '' } });
        return 'conflict';
      },
    });
  const { status, stdout } = await node.call('ADD', { isolation: isolator.isolation, store });
  expect(status).toBe(0);
  expect(new Set(isolator.asked).size).toBe(2);
  const { ips } = JSON.parse(stdout) as { ips: readonly { address: string }[] };
  expect(isolator.asked.at(-1)).toBe(ips[0]?.address);
});

it('releases the endpoint of a pod whose addresses could not be recorded', async () => {
  const node = await memoryNode();
  const isolator = new Isolator();
  const store = (inner: Store): Store =>
    overriding(inner, {
      commit: async (_changes, _signal, onDecided) => {
        onDecided?.();
        return Promise.reject(new NetplugError('store/unavailable', 'the datastore does not answer'));
      },
    });
  expect(await node.call('ADD', { isolation: isolator.isolation, store })).not.toMatchObject({ status: 0 });
  expect([isolator.asked.length, isolator.endpoints.size]).toEqual([1, 0]);
});

it('leaves an address that does not cool down when it fails, and DEL one that does', async () => {
  const node = await memoryNode();
  const cooling = (): number =>
    [...node.database.state().blocks.values()].reduce(
      (sum, { value }) => sum + (value === UNREADABLE ? 0 : value.released.size),
      0,
    );
  node.kernel.failAt('create-link');
  expect(await node.call('ADD')).not.toMatchObject({ status: 0 });
  expect(cooling()).toBe(0);
  expect(await node.call('ADD')).toMatchObject({ status: 0 });
  expect(await node.call('DEL')).toMatchObject({ status: 0 });
  expect(cooling()).toBe(1);
});

it('undoes nothing of an attachment that another call has taken over while it hung', async () => {
  const node = await memoryNode();
  let repeated: number | undefined;
  const isolation: PodIsolation = {
    ...noIsolation('none'),
    isOn: true,
    isolate: async () => {
      await until(() => node.kernel.listHostLinks().length > 0, 'the link is made');
      repeated = (await node.call('ADD')).status;
      throw new NetplugError('cni/deadline', 'the call took too long');
    },
  };
  expect(await node.call('ADD', { isolation })).toMatchObject({ status: 1 });
  expect(repeated).toBe(0);
  expect(node.kernel.listHostLinks()).toHaveLength(1);
  const { blocks, endpoints } = node.database.state();
  const held = [...blocks.values()].flatMap(({ value }) => (value === UNREADABLE ? [] : [...value.slots.values()]));
  expect({ held: held.length, endpoints: endpoints.size }).toEqual({ held: 1, endpoints: 1 });
});

it('sets the bandwidth limits of a pod again when ADD is repeated: the first call may have been killed before', async () => {
  const node = await memoryNode();
  await using scope = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'npl-add-'));
  scope.defer(async () => rm(folder, { recursive: true }));
  await writeFile(join(folder, 'bandwidth'), '');
  await chmod(join(folder, 'bandwidth'), 0o755);
  const commands: string[] = [];
  const bursts: unknown[] = [];
  const exec: ExecDelegate = async (_file, { command, stdin }) => {
    commands.push(command);
    bursts.push((JSON.parse(stdin) as { ingressBurst?: number }).ingressBurst);
    return Promise.resolve({ status: 0, stdout: '', stderr: '' });
  };
  const pods = [podFactsOf('shop', 'web', { annotations: { 'orch/ingress-bandwidth': '10M' } })];
  const call = async (listed: readonly string[]): Promise<unknown> =>
    node.call('ADD', {
      conf: { policy: { type: 'orch' }, orch: { orch_api_root: 'http://127.0.0.1:1' } },
      env: { CNI_PATH: folder },
      pods,
      plugins: { listed, exec },
    });
  const first = await call(['netplug']);
  expect(commands).toEqual([]);
  const again = await call(['netplug', 'bandwidth']);
  expect(commands).toEqual(['DEL', 'ADD']);
  // Bits, of a tenth of a second.
  expect(bursts).toEqual([1e6, 1e6]);
  expect(again).toMatchObject({ status: 0, stdout: (first as { stdout: string }).stdout });
});

it('keeps the link of a pod that runs when the key of the node is lost, and removes it', async () => {
  const node = await memoryNode();
  const { stdout } = await node.call('ADD', { linkKey: 'first' });
  const [link] = node.kernel.listHostLinks();
  const conf = { prevResult: JSON.parse(stdout) as unknown };
  const again = await node.call('ADD', { linkKey: 'second' });
  expect(JSON.parse(again.stdout)).toEqual(conf.prevResult);
  expect(await node.call('CHECK', { linkKey: 'second', conf })).toMatchObject({ status: 0 });
  expect(node.kernel.listHostLinks()).toEqual([link]);
  expect(await node.call('DEL', { linkKey: 'second', env: { CNI_CONTAINERID: 'other' } })).toMatchObject({ status: 0 });
  expect(node.kernel.listHostLinks()).toEqual([link]);
  expect(await node.call('DEL', { linkKey: 'second' })).toMatchObject({ status: 0 });
  expect(node.kernel.listHostLinks()).toEqual([]);
});

it('records the labels that the pod has, by which policies select its addresses when the orchestrator forgets it', async () => {
  const node = await memoryNode();
  const pods = [podFactsOf('shop', 'web', { labels: { role: 'bot', 'pcns.team': 'x' }, serviceAccount: 'till' })];
  const conf = { policy: { type: 'orch' }, orch: { orch_api_root: 'http://127.0.0.1:1' } };
  const args = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web';
  expect(await node.call('ADD', { conf, pods, env: { CNI_ARGS: args } })).toMatchObject({ status: 0 });
  const { endpoints } = await openMemoryStore(node.database).listEndpoints(undefined, new AbortController().signal);
  expect(endpoints.map(({ value }) => [value.metadata.labels, value.spec.profiles])).toEqual([
    [
      {
        role: 'bot',
        'pcown.pcns.team': 'x',
        'netplug/namespace': 'shop',
        'netplug/orchestrator': 'orch',
        'netplug/serviceaccount': 'till',
      },
      ['kns.shop', 'ksa.shop.till'],
    ],
  ]);
});
