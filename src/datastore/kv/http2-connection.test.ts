import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { createServer } from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { Http2Connection } from './http2-connection.ts';

const MODULE = new URL('./http2-connection.ts', import.meta.url).href;

it('keeps the process running while it tests a connection that has been quiet', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const program = `
    import { Http2Connection } from '${MODULE}';
    const connection = new Http2Connection('http://127.0.0.1:${String(port)}', { tls: {}, connectMs: 3000 });
    await connection.connect();
    connection.suspect();
    await connection.connect();
    console.log('tested');`;
  try {
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
    expect(stdout).toBe('tested\n');
  } finally {
    server.close();
  }
});

it('can be closed in the moment in which it is connected', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const connection = new Http2Connection(`http://127.0.0.1:${String(port)}`, { tls: {}, connectMs: 3000 });
  const closeSoon = (message: unknown): void => {
    const { socket } = message as { readonly socket: Socket };
    // After the session's own listener.
    process.nextTick(() => socket.once('connect', () => connection.close()));
  };
  subscribe('net.client.socket', closeSoon);
  try {
    await expect(connection.connect()).rejects.toThrow('closed the connection');
  } finally {
    unsubscribe('net.client.socket', closeSoon);
    server.close();
  }
});

it('is tested once for all callers at the same time', async () => {
  let pings = 0;
  const server = createServer().listen(0, '127.0.0.1');
  server.on('session', (session) => session.on('ping', () => (pings += 1)));
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const connection = new Http2Connection(`http://127.0.0.1:${String(port)}`, { tls: {}, connectMs: 3000 });
  try {
    const session = await connection.connect();
    connection.suspect();
    // More than Node lets be on their way at once.
    const sessions = await Promise.all(Array.from({ length: 16 }, async () => connection.connect()));
    expect(new Set(sessions)).toEqual(new Set([session]));
    expect(pings).toBe(1);
  } finally {
    connection.close();
    server.close();
  }
});

it('opens one connection for all callers that find the last one dead', async () => {
  let opened = 0;
  const server = createServer().listen(0, '127.0.0.1');
  server.on('session', () => (opened += 1));
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const connection = new Http2Connection(`http://127.0.0.1:${String(port)}`, { tls: {}, connectMs: 1500 });
  try {
    const session = await connection.connect();
    // As when nothing that is sent arrives: the first settings do not come again.
    session.ping = async () => session.introduced();
    connection.suspect();
    const first = connection.connect();
    await new Promise((resolve) => setTimeout(resolve, 100));
    const sessions = await Promise.all([first, connection.connect(), connection.connect()]);
    expect(new Set(sessions).size).toBe(1);
    expect(sessions).not.toContain(session);
    expect(opened).toBe(2);
  } finally {
    connection.close();
    server.close();
  }
});

it('survives that its session ends before a request has begun', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const connection = new Http2Connection(`http://127.0.0.1:${String(port)}`, { tls: {}, connectMs: 3000 });
  try {
    const session = await connection.connect();
    const opening = connection.stream('/path', { headers: {}, signal: AbortSignal.timeout(10_000) });
    session.destroy();
    // An error without a listener fails the run of the tests.
    await expect(opening).rejects.toThrow('closed the connection');
  } finally {
    connection.close();
    server.close();
  }
});
