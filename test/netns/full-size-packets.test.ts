// A path between two pods stops to take full-size packets while "netplugctl probe flow" watches it: by a link half-way, on the
// way back alone, and by the interface of the pod.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { buildNative } from '../../scripts/build-native.ts';
import { newNetns, type TestNetns } from '../support/netns.ts';
import { until } from '../support/until.ts';

const MAIN = join(import.meta.dirname, '../../src/bin/main.ts');
const PORTS = { serve: '8080', ready: '8090' } as const;
const URLS = ['udp://10.66.2.2:8080', 'udp://[fd66:2::2]:8080'];
const LOWERED = 1400;

/** The pod that sends, a router, and the pod that answers. */
interface Path {
  readonly client: TestNetns;
  readonly router: TestNetns;
  readonly server: TestNetns;
}

describe.concurrent('full-size packets, while small ones arrive', () => {
  it.each<[string, (path: Path) => Promise<unknown>, string]>([
    [
      'by a link half-way',
      async ({ router }) => router.exec('ip', 'link', 'set', 'dev', 'to-server', 'mtu', String(LOWERED)),
      `packets of at most ${String(LOWERED)} bytes arrive`,
    ],
    [
      'on the way back alone',
      async ({ router }) => {
        const to = ['dev', 'to-client', 'mtu', 'lock', String(LOWERED)];
        await router.exec('ip', 'route', 'change', '10.66.1.0/24', ...to);
        await router.exec('ip', '-6', 'route', 'add', 'fd66:1::2', ...to);
      },
      `packets of at most ${String(LOWERED)} bytes arrive`,
    ],
    [
      'by the interface of the pod',
      async ({ client }) => client.exec('ip', 'link', 'set', 'dev', 'eth0', 'mtu', String(LOWERED)),
      `that of the pod's interface was lowered from 1500 to ${String(LOWERED)} bytes`,
    ],
  ])('are found lost %s, in both families', async (_, lower, mtu) => {
    await using scope = new AsyncDisposableStack();
    const path = await newPath(scope);
    const server = startTool(scope, path.server, ['serve', '--port', PORTS.serve, '--unfragmented']);
    // The other end waits for it only so long.
    await once(server.stdout!, 'data');
    const flow = startTool(scope, path.client, ['flow', '--port', PORTS.ready, ...URLS]);
    const [printed, ended] = [text(flow.stdout!), once(flow, 'exit')];
    await until(
      async () => flow.exitCode !== null || isReady(path.client),
      'packets of both sizes are answered',
      60_000,
    );
    await lower(path);
    expect(await ended).toEqual([1, null]);
    const said = (await printed).trim().replaceAll(/\d+ of \d+ within \S+ s from [^;]+;/g, 'N of M;');
    expect(said.replaceAll(/\d+ datagrams/g, 'N datagrams').split('\n')).toEqual(
      URLS.flatMap((url) => [
        `${url}: N datagrams sent, none lost`,
        `${url}: full-size packets of 1500 bytes are lost while small ones arrive: N of M; MTU: ${mtu}`,
      ]),
    );
  });
});

async function newPath(scope: AsyncDisposableStack): Promise<Path> {
  buildNative();
  const [client, router, server] = [
    scope.use(await newNetns()),
    scope.use(await newNetns()),
    scope.use(await newNetns()),
  ];
  for (const [pod, name, subnet] of [
    [client, 'to-client', 1],
    [server, 'to-server', 2],
  ] as const) {
    const peer = ['type', 'veth', 'peer', 'name', 'eth0', 'netns', pod.path];
    await router.exec('ip', 'link', 'add', 'name', name, ...peer);
    for (const [netns, device, host] of [
      [router, name, 1],
      [pod, 'eth0', 2],
    ] as const) {
      await netns.exec('ip', 'link', 'set', 'dev', device, 'up');
      await netns.addAddress(`10.66.${String(subnet)}.${String(host)}/24`, device);
      await netns.addAddress(`fd66:${String(subnet)}::${String(host)}/64`, device);
    }
    await pod.exec('ip', 'route', 'add', 'default', 'via', `10.66.${String(subnet)}.1`);
    await pod.exec('ip', '-6', 'route', 'add', 'default', 'via', `fd66:${String(subnet)}::1`);
  }
  for (const setting of ['net.ipv4.ip_forward', 'net.ipv6.conf.all.forwarding'])
    await router.exec('sysctl', '-qw', `${setting}=1`);
  return { client, router, server };
}

/** Runs the tool from its sources, with the /sys of the namespace, from which it reads the MTU. */
function startTool(scope: AsyncDisposableStack, { name }: TestNetns, args: readonly string[]): ChildProcess {
  const script = 'exec -a netplugctl "$@"';
  const command = ['bash', '-c', script, 'bash', process.execPath, MAIN, 'probe', ...args];
  const child = spawn('ip', ['netns', 'exec', name, ...command], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  scope.defer(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return child;
}

async function isReady(netns: TestNetns): Promise<boolean> {
  const ask = `exec 3<>/dev/tcp/127.0.0.1/${PORTS.ready} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && head -n 1 <&3`;
  const answer = await netns.exec('bash', '-c', ask).catch(() => '');
  return answer.includes(' 200 ');
}
