import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { PATIENCE_MS } from '../../test/support/until.ts';
import { afterEach, describe, expect, it } from 'vitest';
import { nodeName } from '../../test/support/fixtures.ts';
import { systemClock } from '../base/clock.ts';
import { NetplugError } from '../base/errors.ts';
import { silentLog } from '../base/log.ts';
import type { AdmittedClient } from './admit-client.ts';
import { type Hello, HELLO_MESSAGE } from './handshake.ts';
import { openStream } from './open-stream.ts';
import { makeOwnCertificate } from './own-certificate.ts';
import type { StreamPeer } from './peer.ts';
import { streamFrame } from './stream-frames.ts';
import { certifiedName, connectTo } from './tls-client.ts';
import { startTlsServer, type TlsServer } from './tls-server.ts';

const WITHIN = { timeout: PATIENCE_MS };
const never = new AbortController().signal;
const protocol = 'netplug-test/1';
const formats = { oldest: 1, newest: 1 };
const hello: Hello = { token: 'good', release: '1', formats };
const own = makeOwnCertificate(certifiedName('s1'), Date.now());
const running: TlsServer[] = [];
const sockets: Socket[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const server of running.splice(0)) await server[Symbol.asyncDispose]();
});

/** A server that sends each frame back. */
async function start(
  limits = { atOnce: 8, waiting: 4, ofOneAddress: 20 },
): Promise<{ server: TlsServer; clients: AdmittedClient[] }> {
  const clients: AdmittedClient[] = [];
  const server = await startTlsServer({
    host: '127.0.0.1',
    port: 0,
    own,
    protocol,
    log: silentLog,
    limits,
    admission: {
      clock: systemClock,
      server: 's1',
      release: '1',
      formats,
      limitBytes: 100_000,
      identify: async (token) => {
        if (token === 'good') return Promise.resolve(nodeName('n1'));
        throw new NetplugError('stream/identity-refused', 'Cannot identify the client');
      },
      admit: (client, peer: StreamPeer) => {
        clients.push(client);
        return {
          onFrame: ({ type, payload }) => peer.send(streamFrame(type, payload)),
          onDrain: () => undefined,
          onEnd: () => clients.splice(clients.indexOf(client), 1),
        };
      },
    },
  });
  running.push(server);
  return { server, clients };
}

const entry = (port: number): Parameters<typeof connectTo>[0] => ({
  name: 's1',
  addresses: ['127.0.0.1'],
  port,
  certificate: own.certificate,
});

async function secureTo(port: number): Promise<TLSSocket> {
  const socket = await connectTo(entry(port), protocol, never);
  sockets.push(socket);
  socket.on('error', () => undefined);
  return socket;
}

/** The other end may reset the connection. */
async function closeOf(socket: Socket): Promise<void> {
  await new Promise<void>((resolve) => socket.once('close', () => resolve()));
}

describe('a server of connections', () => {
  it('welcomes a client that it can identify, and passes its frames on', async () => {
    const { server, clients } = await start();
    const answered = Promise.withResolvers<string>();
    const { peer, welcome } = await openStream(
      await secureTo(server.port),
      {
        hello,
        limitBytes: 1000,
        clock: systemClock,
        listener: {
          onFrame: ({ payload }) => answered.resolve(payload.toString()),
          onDrain: () => undefined,
          onEnd: () => undefined,
        },
      },
      never,
    );
    expect(welcome).toEqual({ server: 's1', release: '1', format: 1 });
    peer.send(streamFrame(20, 'echo'));
    expect(await answered.promise).toBe('echo');
    expect(clients.map(({ node }) => node)).toEqual(['n1']);
    expect(server.pending).toBe(0);
    peer.end();
    await expect.poll(() => clients, WITHIN).toEqual([]);
  });

  it('tells a client why it is refused', async () => {
    const { server } = await start();
    const open = async (said: Hello): Promise<unknown> =>
      openStream(
        await secureTo(server.port),
        {
          hello: said,
          limitBytes: 1000,
          clock: systemClock,
          listener: { onFrame: () => undefined, onDrain: () => undefined, onEnd: () => undefined },
        },
        never,
      );
    await expect(open({ ...hello, token: 'bad' })).rejects.toMatchObject({ code: 'stream/identity-refused' });
    await expect(open({ ...hello, formats: { oldest: 2, newest: 3 } })).rejects.toMatchObject({
      code: 'stream/format-unsupported',
    });
  });

  it('is not trusted with another certificate, another name or another protocol', async () => {
    const { server } = await start();
    const { certificate } = makeOwnCertificate(certifiedName('s1'), Date.now());
    for (const wrong of [{ certificate }, { name: 's2' }])
      await expect(connectTo({ ...entry(server.port), ...wrong }, protocol, never)).rejects.toMatchObject({
        code: 'store/unavailable',
      });
    await expect(connectTo(entry(server.port), 'h2', never)).rejects.toMatchObject({ code: 'store/unavailable' });
  });

  it('refuses a client of TLS 1.2', async () => {
    const { server } = await start();
    const socket = connectTls({
      host: '127.0.0.1',
      port: server.port,
      ca: own.certificate,
      servername: certifiedName('s1'),
      maxVersion: 'TLSv1.2',
    });
    sockets.push(socket);
    const [cause] = (await once(socket, 'error')) as [Error];
    expect(cause.message).toMatch(/protocol version/);
  });

  it('closes connections beyond its limits while their clients say nothing, and serves others', async () => {
    const { server, clients } = await start({ atOnce: 3, waiting: 20, ofOneAddress: 8 });
    const silent = Array.from({ length: 12 }, () => connect({ host: '127.0.0.1', port: server.port }));
    let closed = 0;
    for (const socket of silent) {
      sockets.push(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => (closed += 1));
    }
    await expect.poll(() => [server.pending, closed], WITHIN).toEqual([8, 4]);
    for (const socket of silent) socket.destroy();
    await expect.poll(() => server.pending, WITHIN).toBe(0);
    (await secureTo(server.port)).write(HELLO_MESSAGE.frame(hello));
    await expect.poll(() => clients.length, WITHIN).toBe(1);
  });

  it('serves a client in seconds while silent ones have all places', async () => {
    const { server, clients } = await start({ atOnce: 4, waiting: 20, ofOneAddress: 20 });
    const silent = Array.from({ length: 3 }, () => connect({ host: '127.0.0.1', port: server.port }));
    silent.push(await secureTo(server.port));
    for (const socket of silent) {
      sockets.push(socket);
      socket.on('error', () => undefined);
    }
    await expect.poll(() => server.pending, WITHIN).toBe(4);
    await systemClock.sleep(1200, never);
    expect(silent.every(({ destroyed }) => !destroyed)).toBe(true);
    const beganMs = systemClock.monotonic();
    (await secureTo(server.port)).write(HELLO_MESSAGE.frame(hello));
    await expect.poll(() => clients.length, WITHIN).toBe(1);
    // Each of the silent ones would have 10 s.
    expect(systemClock.monotonic() - beganMs).toBeLessThan(5000);
  });

  it('serves an address that was refused again and again only some times a second', async () => {
    const { server } = await start({ atOnce: 8, waiting: 4, ofOneAddress: 3 });
    let answered = 0;
    for (let round = 0; round < 20; round += 1) {
      const socket = connect({ host: '127.0.0.1', port: server.port });
      sockets.push(socket);
      socket.on('error', () => undefined);
      // An alert of TLS, where it was listened to.
      socket.on('data', () => (answered += 1));
      socket.write('GET / HTTP/1.1\r\n\r\n'.repeat(10));
      await closeOf(socket);
    }
    expect(server.refused).toBe(20);
    expect(answered).toBeLessThan(20);
  });

  it('serves an address whose clients leave after the handshake only some times a second', async () => {
    const { server } = await start({ atOnce: 8, waiting: 4, ofOneAddress: 3 });
    let secured = 0;
    for (let round = 0; round < 20; round += 1) {
      const socket = await secureTo(server.port).catch(() => undefined);
      if (socket === undefined) continue;
      secured += 1;
      // The server has finished the handshake when it answers.
      socket.write(streamFrame(1, '{"token":1}').subarray(0, 8));
      await systemClock.sleep(20, never);
      socket.destroy();
      await closeOf(socket);
      await expect.poll(() => server.pending, WITHIN).toBe(0);
    }
    expect(secured).toBeLessThan(20);
  });

  it('ends a client that sends garbage, a frame over 16 KiB before hello, or goes on before it is welcomed', async () => {
    const { server, clients } = await start();
    const garbage = connect({ host: '127.0.0.1', port: server.port });
    sockets.push(garbage);
    garbage.on('error', () => undefined);
    garbage.write('GET / HTTP/1.1\r\n\r\n'.repeat(100));
    await closeOf(garbage);
    for (const bytes of [
      Buffer.from('GET / HTTP/1.1\r\n\r\n'),
      streamFrame(1, 'x'.repeat(17 * 1024)),
      streamFrame(1, '{"token":1}'),
      streamFrame(16, '{}'),
      Buffer.concat([HELLO_MESSAGE.frame(hello), streamFrame(16, 'early')]),
    ]) {
      const socket = await secureTo(server.port);
      socket.resume();
      socket.write(bytes);
      await closeOf(socket);
    }
    await expect.poll(() => [server.pending, clients.length], WITHIN).toEqual([0, 0]);
  });

  it('ends an identified client that sends a frame over its limit', async () => {
    const { server, clients } = await start();
    const socket = await secureTo(server.port);
    socket.write(HELLO_MESSAGE.frame(hello));
    await expect.poll(() => clients.length, WITHIN).toBe(1);
    socket.resume();
    socket.write(streamFrame(20, Buffer.alloc(100_001)));
    await closeOf(socket);
    await expect.poll(() => clients.length, WITHIN).toBe(0);
  });
});
