import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { silentLog } from '../base/log.ts';
import {
  type HealthPorts,
  type HealthServer,
  startHealthServer,
  startMetricsServer,
  startProbeServer,
} from './health-server.ts';

const LOOPBACK = { host: '127.0.0.1', port: 0 };
const WELL: HealthPorts = {
  notReady: async () => [],
  metrics: {
    render: async () => Promise.resolve('netplug_datastore_up 1\n'),
    contentType: 'text/plain; version=0.0.4',
  },
  log: silentLog,
};

describe('the health endpoint', () => {
  it('reports a live event loop, and that calls can be served', async () => {
    await using server = await startHealthServer(LOOPBACK, WELL);
    expect(await ask(server, '/healthz')).toEqual([200, 'ok\n']);
    expect(await ask(server, '/readyz?verbose')).toEqual([200, 'ok\n']);
  });

  it('returns the reasons why calls cannot be served', async () => {
    const notReady = async (): Promise<readonly string[]> => [
      'the datastore does not answer',
      'the warm pool is empty',
    ];
    await using server = await startHealthServer(LOOPBACK, { ...WELL, notReady });
    expect(await ask(server, '/readyz')).toEqual([503, 'the datastore does not answer\nthe warm pool is empty\n']);
    expect(await ask(server, '/healthz')).toEqual([200, 'ok\n']);
  });

  it('answers a probe that names a pod for that pod only', async () => {
    await using server = await startHealthServer(LOOPBACK, { ...WELL, pod: 'new' });
    expect(await ask(server, '/readyz?pod=new')).toEqual([200, 'ok\n']);
    expect(await ask(server, '/readyz?pod=old')).toEqual([503, 'pod "old" does not serve here: this is pod "new"\n']);
    expect(await ask(server, '/readyz')).toEqual([200, 'ok\n']);
    await using host = await startHealthServer(LOOPBACK, WELL);
    expect(await ask(host, '/readyz?pod=old')).toEqual([503, 'pod "old" does not serve here: this is no pod\n']);
  });

  it('adds warnings without failing the probe', async () => {
    const warnings = (): readonly string[] => ['the token expires in 59 minutes'];
    await using server = await startHealthServer(LOOPBACK, { ...WELL, warnings });
    expect(await ask(server, '/readyz')).toEqual([200, 'ok\nwarning: the token expires in 59 minutes\n']);
    await using down = await startHealthServer(LOOPBACK, { ...WELL, warnings, notReady: async () => ['no node'] });
    expect(await ask(down, '/readyz')).toEqual([503, 'no node\nwarning: the token expires in 59 minutes\n']);
  });

  it('returns the metrics', async () => {
    await using server = await startHealthServer(LOOPBACK, WELL);
    const response = await fetch(`http://127.0.0.1:${String(server.port)}/metrics`);
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4');
    expect(await response.text()).toBe('netplug_datastore_up 1\n');
    const render = async (): Promise<string> => Promise.reject(new Error('broken'));
    await using broken = await startHealthServer(LOOPBACK, { ...WELL, metrics: { ...WELL.metrics, render } });
    expect(await ask(broken, '/metrics')).toEqual([500, 'broken\n']);
  });

  it('rejects other paths and methods', async () => {
    await using server = await startHealthServer(LOOPBACK, WELL);
    expect((await ask(server, '/'))[0]).toBe(404);
    expect((await ask(server, '/healthz', 'POST'))[0]).toBe(405);
    expect(await ask(server, '/healthz', 'HEAD')).toEqual([200, '']);
    const socket = connect(server.port, '127.0.0.1');
    socket.write(`GET /healthz HTTP/1.1\r\nhost: a\r\nx: ${'x'.repeat(10_000)}\r\n\r\n`);
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    expect(String(chunk)).toMatch(/^HTTP\/1\.1 431 /);
    socket.destroy();
  });

  it('serves the metrics alone at their own address', async () => {
    await using server = await startMetricsServer(LOOPBACK, WELL);
    expect(await ask(server, '/metrics?x=1')).toEqual([200, 'netplug_datastore_up 1\n']);
    for (const path of ['/healthz', '/readyz', '/'])
      expect(await ask(server, path)).toEqual([404, 'there is only /metrics\n']);
    expect((await ask(server, '/metrics', 'POST'))[0]).toBe(405);
    await expect(startMetricsServer({ ...LOOPBACK, port: server.port }, WELL)).rejects.toMatchObject({
      code: 'agent/health-failed',
      hint: 'Set NETPLUG_METRICS_ADDRESS to another address and port, or to an empty string to disable the server',
    });
  });

  it('answers while other users of the node hold all connections that it allows', async () => {
    await using server = await startHealthServer(LOOPBACK, WELL);
    const held: Socket[] = [];
    // The kernel takes 511 at once for the server, and lets others wait for a second.
    for (let batch = 0; batch < 11; batch += 1) {
      // One that does not read hears of no end.
      const sockets = Array.from({ length: 100 }, () =>
        connect(server.port, '127.0.0.1')
          .on('error', () => undefined)
          .resume(),
      );
      await Promise.all(sockets.map(async (socket) => once(socket, 'connect')));
      held.push(...sockets);
    }
    for (let asked = 0; asked < 5; asked += 1) expect(await ask(server, '/healthz')).toEqual([200, 'ok\n']);
    await expect.poll(() => held.filter(({ closed }) => closed).length).toBeGreaterThanOrEqual(76);
    for (const socket of held) socket.destroy();
  });

  it('reads one request of a connection, and makes no page more often than a few times a second, whatever is asked', async () => {
    const { metrics, renders } = countedMetrics(20);
    await using server = await startHealthServer(LOOPBACK, { ...WELL, metrics });
    const request = 'GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n'.repeat(1000);
    const answers = await Promise.all(
      Array.from({ length: 50 }, async () => {
        const socket = connect(server.port, '127.0.0.1').on('error', () => undefined);
        let received = '';
        socket.on('data', (chunk: Buffer) => (received += String(chunk)));
        socket.write(request);
        await once(socket, 'close');
        return received.split('HTTP/1.1 200').length - 1;
      }),
    );
    expect(Math.max(...answers)).toBe(1);
    expect(renders()).toBeLessThan(10);
  });

  it('serves probes at a socket of root alone, and replaces the one of the agent before', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'npl-probes-'));
    const path = join(folder, 'probes.sock');
    const before = await startProbeServer(path, { ...WELL, pod: 'old' });
    await using _server = await startProbeServer(path, { ...WELL, pod: 'new' });
    await before[Symbol.asyncDispose]();
    const { mode } = statSync(path);
    expect(mode & 0o777).toBe(0o600);
    const answers = await Promise.all(['old', 'new'].map(async (pod) => askAt(path, `/readyz?pod=${pod}`)));
    expect(answers).toEqual([503, 200]);
    expect(readdirSync(folder)).toEqual(['probes.sock']);
    await expect(startProbeServer('/nowhere/probes.sock', WELL)).rejects.toMatchObject({
      code: 'agent/health-failed',
    });
    rmSync(folder, { recursive: true });
  });

  it('makes each page at that socket when it is asked for', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'npl-probes-'));
    const path = join(folder, 'probes.sock');
    const { metrics, renders } = countedMetrics(50);
    await using _server = await startProbeServer(path, { ...WELL, metrics });
    for (const asked of [1, 2, 3]) {
      expect(await askAt(path, '/metrics')).toBe(200);
      expect(renders()).toBe(asked);
    }
    rmSync(folder, { recursive: true });
  });

  it('fails with a hint when the port is in use', async () => {
    await using server = await startHealthServer(LOOPBACK, WELL);
    await expect(startHealthServer({ ...LOOPBACK, port: server.port }, WELL)).rejects.toMatchObject({
      code: 'agent/health-failed',
      message: `Cannot listen on 127.0.0.1 port ${String(server.port)}: another process uses this port`,
    });
  });
});

/** Metrics that take so long to render, and how often they were rendered. */
function countedMetrics(ms: number): { readonly metrics: typeof WELL.metrics; readonly renders: () => number } {
  let renders = 0;
  const render = async (): Promise<string> => {
    renders += 1;
    await new Promise((resolve) => setTimeout(resolve, ms));
    return 'netplug_datastore_up 1\n';
  };
  return { metrics: { ...WELL.metrics, render }, renders: () => renders };
}

async function askAt(socketPath: string, path: string): Promise<number | undefined> {
  const [response] = (await once(get({ socketPath, path }), 'response')) as [IncomingMessage];
  response.resume();
  return response.statusCode;
}

async function ask({ port }: HealthServer, path: string, method = 'GET'): Promise<[number, string]> {
  const response = await fetch(`http://127.0.0.1:${String(port)}${path}`, { method });
  return [response.status, await response.text()];
}
