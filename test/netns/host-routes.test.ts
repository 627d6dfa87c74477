import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { networkOf } from '../contract/suites/dataplane/kernel.ts';
import { putRoute, toDeletion } from '../contract/suites/dataplane/host-network.ts';
import { HOST_LINK_PREFIX } from '../../src/dataplane/kernel.ts';
import type { HostEvent } from '../../src/dataplane/host-network.ts';
import { linuxHostNetwork } from '../../src/dataplane/linux/host-network.ts';
import { linuxKernel } from '../../src/dataplane/linux/linux-kernel.ts';
import { type TestNetns, enterNetns, newNetns } from '../support/netns.ts';
import { until } from '../support/until.ts';

const never = new AbortController().signal;
const MANY = 20_000;

/** A host whose uplink is `up0`, and which the test is in. */
async function newHost(): Promise<AsyncDisposable & { readonly netns: TestNetns }> {
  const scope = new AsyncDisposableStack();
  const netns = scope.use(await newNetns());
  const inside = enterNetns(netns);
  scope.defer(() => {
    inside.leave();
  });
  await netns.exec('ip', 'link', 'add', 'name', 'up0', 'type', 'veth', 'peer', 'name', 'up1');
  await netns.exec('ip', 'link', 'set', 'dev', 'up1', 'up');
  await netns.exec('ip', 'link', 'set', 'dev', 'up0', 'up');
  await netns.exec('ip', 'address', 'add', '192.0.2.1/24', 'dev', 'up0');
  return { netns, [Symbol.asyncDispose]: async () => scope.disposeAsync() };
}

describe('routes between nodes on a real host', () => {
  it('are added, listed and deleted by the ten thousand, and each event is delivered or reported as lost', async () => {
    await using scene = await newHost();
    const host = linuxHostNetwork();
    const events = new Map<HostEvent['kind'], number>();
    using _watch = host.watch(({ kind }) => events.set(kind, (events.get(kind) ?? 0) + 1));
    const blocks = Array.from({ length: MANY }, (_, index) => {
      const block = (index * 64) >>> 0;
      const v4 = `10.${String((block >> 16) & 255)}.${String((block >> 8) & 255)}.${String(block & 255)}/26`;
      return index % 2 === 0 ? v4 : `fd00:65:${index.toString(16)}::/122`;
    });
    const changes = blocks.map((block) =>
      putRoute(block, block.includes(':') ? 'fd00::1' : '203.0.113.2', { reach: 'on-link' }),
    );
    const times: string[] = [];
    const timed = async <T>(what: string, run: () => Promise<T>): Promise<T> => {
      const start = performance.now();
      const result = await run();
      times.push(`${what} ${(performance.now() - start).toFixed(0)} ms`);
      return result;
    };
    expect(await timed('put', async () => host.change(changes, never))).toEqual([]);
    expect(await timed('list', async () => host.listRoutes())).toHaveLength(MANY);
    expect(await timed('replace', async () => host.change(changes, never))).toEqual([]);
    expect(await timed('delete', async () => host.change(changes.map(toDeletion), never))).toEqual([]);
    expect(await host.listRoutes()).toEqual([]);
    expect(await scene.netns.ip('route', 'show', 'proto', '118')).toEqual([]);
    const count = (kind: HostEvent['kind']): number => events.get(kind) ?? 0;
    await until(() => count('route-deleted') >= MANY || count('unknown') > 0, 'the last event came');
    console.log(`${String(MANY)} routes: ${times.join(', ')}; ${JSON.stringify([...events])}`);
  });

  it('lose events only with a report', async () => {
    await using _scene = await newHost();
    const host = linuxHostNetwork();
    const kinds = new Set<string>();
    using _watch = host.watch(({ kind }) => kinds.add(kind));
    const batch = Array.from({ length: 60_000 }, (_, index) => {
      const [a, b] = [index >> 8, index & 255];
      return `route add blackhole 10.${String(a)}.${String(b)}.0/24 proto 118 metric 4096`;
    });
    // Synchronously: meanwhile this process receives no events.
    execFileSync('ip', ['-batch', '-'], { input: batch.join('\n') });
    await until(() => kinds.has('unknown'), 'the loss of events is reported');
    expect(kinds).toContain('unknown');
  });

  it('are watched without events of other kinds than pod-links for pods that come and go', async () => {
    await using scene = await newHost();
    await using pod = await newNetns();
    const host = linuxHostNetwork();
    const kinds: string[] = [];
    // The carrier of a new link is reported at any time.
    const isOfHost = (event: HostEvent): boolean =>
      event.kind === 'links' && !event.devices.some((device) => device.startsWith(HOST_LINK_PREFIX));
    using _watch = host.watch((event) => isOfHost(event) || kinds.push(event.kind));
    const network = networkOf(pod.path);
    await linuxKernel().apply(network, never);
    await linuxKernel().remove(network.hostLinkName, network.owner);
    await host.change([putRoute('10.65.0.0/26')], never);
    await until(() => kinds.includes('route-put'), 'the route is reported');
    expect(kinds.filter((kind) => kind !== 'pod-links')).toEqual(['route-put']);
    expect(await scene.netns.ip('route', 'show', 'type', 'blackhole')).toHaveLength(1);
  });

  it('report routes of other programs to single addresses', async () => {
    await using scene = await newHost();
    const host = linuxHostNetwork();
    const kinds: string[] = [];
    // The carrier of a new link is reported at any time.
    using _watch = host.watch(({ kind }) => kind === 'links' || kinds.push(kind));
    const changes = [
      ['add', '10.66.0.0/24'],
      ['add', '10.65.0.1/32'],
      ['delete', '10.65.0.1/32'],
      ['add', 'fd00:65::1/128'],
    ] as const;
    for (const [change, destination] of changes)
      await scene.netns.exec('ip', 'route', change, destination, 'dev', 'up0');
    await until(() => kinds.length >= 3, 'the routes are reported');
    await host.change([putRoute('10.65.0.0/26')], never);
    await until(() => kinds.includes('route-put'), 'the route of the agent is reported');
    expect(kinds).toEqual(['paths', 'paths', 'paths', 'route-put']);
  });

  it('are watched without keeping the process alive', () => {
    const module = new URL('../../src/dataplane/linux/host-network.ts', import.meta.url).href;
    const program = `import { linuxHostNetwork } from '${module}'; linuxHostNetwork().watch(() => {}); console.log('over');`;
    const args = ['--input-type=module', '-e', program];
    expect(execFileSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000 })).toBe('over\n');
  });

  it('carry what the host shows', async () => {
    await using scene = await newHost();
    const host = linuxHostNetwork();
    await host.change(
      [putRoute('10.65.0.0/26', '203.0.113.2', { reach: 'on-link' }), putRoute('fd00:65::/122')],
      never,
    );
    expect(await scene.netns.ip('-4', 'route', 'show', 'proto', '118')).toEqual([
      expect.objectContaining({
        dst: '10.65.0.0/26',
        gateway: '203.0.113.2',
        dev: 'up0',
        metric: 4096,
        flags: ['onlink'],
      }),
    ]);
    expect(await scene.netns.ip('-6', 'route', 'show', 'type', 'blackhole')).toEqual([
      expect.objectContaining({ dst: 'fd00:65::/122', metric: 4096, protocol: '118' }),
    ]);
  });

  it.each([
    ['a blackhole of the agent', ['blackhole', 'ADDRESS', 'proto', '118', 'metric', '4096']],
    ['a route of the agent', ['ADDRESS', 'dev', 'up0', 'proto', '118', 'metric', '4096']],
    ['a route of a routing daemon', ['ADDRESS', 'dev', 'up0', 'proto', 'bird', 'metric', '2000']],
    ['a blackhole of a routing daemon', ['blackhole', 'ADDRESS', 'proto', 'bird', 'metric', '2000']],
  ])('let the address of a pod in beside %s', async (_name, route) => {
    await using scene = await newHost();
    await using pod = await newNetns();
    const network = networkOf(pod.path);
    for (const [family, address] of [
      ['-4', '10.65.0.1/32'],
      ['-6', 'fd00:65::1/128'],
    ] as const) {
      const words = route.map((word) => (word === 'ADDRESS' ? address : word));
      await scene.netns.exec('ip', family, 'route', 'add', ...words);
    }
    await linuxKernel().apply(network, never);
    expect(linuxKernel().observe(network).hostRoutes).toEqual(['10.65.0.1', 'fd00:65::1']);
    expect([await scene.netns.ping('10.65.0.1'), await scene.netns.ping('fd00:65::1')]).toEqual([true, true]);
    await linuxKernel().remove(network.hostLinkName, network.owner);
    const left = [...(await scene.netns.ip('-4', 'route')), ...(await scene.netns.ip('-6', 'route'))];
    expect(left.filter(({ dst }) => ['10.65.0.1', 'fd00:65::1'].includes(String(dst)))).toHaveLength(2);
  });

  it('fail an ADD whose address another link has behind a blackhole of the agent', async () => {
    await using scene = await newHost();
    await using pod = await newNetns();
    await linuxHostNetwork().change([putRoute('10.65.0.0/26')], never);
    await scene.netns.exec('ip', 'route', 'add', 'prohibit', '10.65.0.1/32');
    await expect(linuxKernel().apply(networkOf(pod.path), never)).rejects.toMatchObject({
      code: 'kernel/foreign-route',
    });
  });
});
