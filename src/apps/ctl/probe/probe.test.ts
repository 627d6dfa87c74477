import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { systemClock } from '../../../base/clock.ts';
import type { Context } from '../ports.ts';
import { connectToAll } from './connect.ts';
import { watchFlow } from './flow.ts';
import { serveProbe } from './serve-probe.ts';
import { PATIENCE_MS, until } from '../../../../test/support/until.ts';

const openPlain = async (family: 4 | 6) => Promise.resolve(createSocket(family === 6 ? 'udp6' : 'udp4'));

/** Returns the part of a context that commands of this folder use. */
function contextOf({ stopped, signal }: { stopped?: AbortSignal; signal?: AbortSignal }) {
  const lines: string[] = [];
  const context = {
    io: { stdout: (text: string) => lines.push(text.trim()) },
    // Nothing is fragmented on the loopback interface.
    ports: { clock: systemClock, hostname: 'pod-a', openUnfragmented: openPlain },
    stopped: stopped ?? new AbortController().signal,
    signal: signal ?? new AbortController().signal,
  };
  return { context: context as unknown as Context, lines };
}

/** Answers datagrams unless a test makes it lose or hold them. */
async function startEcho() {
  const socket = createSocket('udp4');
  const held: (() => void)[] = [];
  const echo = {
    isLosing: false,
    losesLarge: false,
    isPaused: false,
    ports: new Set<number>(),
    large: 0,
    resume: () => {
      echo.isPaused = false;
      for (const answer of held.splice(0)) answer();
    },
  };
  socket.on('message', (data, { address, port }) => {
    echo.ports.add(port);
    if (data.length > 100) echo.large += 1;
    if (echo.isLosing || (echo.losesLarge && data.length > 100)) return;
    const answer = (): void => socket.send(data, port, address);
    if (echo.isPaused) held.push(answer);
    else answer();
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    echo,
    url: `udp://127.0.0.1:${String(socket.address().port)}`,
    [Symbol.dispose]: () => void socket.close(),
  };
}

/** Below those that the kernel gives to sockets of other tests. */
function portsForTest(): readonly [number, number] {
  const port = 20_000 + Math.floor(Math.random() * 5000) * 2;
  return [port, port + 1];
}

it('connects to HTTP and to datagrams that fill a packet, and says which closed URL answers', async () => {
  const [port, closedPort] = portsForTest();
  const stop = new AbortController();
  const serving = serveProbe(contextOf({ stopped: stop.signal }).context, { port, closedPort, unfragmented: false });
  const open = [`http://127.0.0.1:${String(port)}/`, `udp://127.0.0.1:${String(port)}`, `udp://[::1]:${String(port)}`];
  const good = contextOf({});
  expect(await connectToAll(good.context, { open, closed: [] })).toBe(0);
  expect(good.lines).toEqual(['3 of 3 URLs answer']);

  const closed = `http://127.0.0.1:${String(closedPort)}/`;
  const bad = contextOf({ signal: AbortSignal.timeout(1500) });
  expect(await connectToAll(bad.context, { open, closed: [closed] })).toBe(1);
  expect(bad.lines).toEqual([`${closed}: it answers although a policy forbids it`]);
  stop.abort();
  expect(await serving).toBe(0);
});

it('takes a URL that stays silent as closed', async () => {
  const silent = createServer().listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const { context, lines } = contextOf({});
  const url = `http://127.0.0.1:${String((silent.address() as AddressInfo).port)}/`;
  expect(await connectToAll(context, { open: [], closed: [url] })).toBe(0);
  expect(lines).toEqual(['0 of 0 URLs answer, 1 of 1 closed ones do not']);
  silent.close();
});

it('does not take a network that answers nothing any more for a policy', async () => {
  const open = createHttpServer((_, response) => response.end()).listen(0, '127.0.0.1');
  const silent = createServer(() => {
    open.closeAllConnections();
    open.close();
  }).listen(0, '127.0.0.1');
  await Promise.all([once(open, 'listening'), once(silent, 'listening')]);
  const urlOf = (server: { address(): unknown }): string =>
    `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/`;
  const urls = { open: [urlOf(open)], closed: [urlOf(silent)] };
  const { context, lines } = contextOf({ signal: AbortSignal.timeout(5000) });
  expect(await connectToAll(context, urls)).toBe(1);
  expect(lines).toEqual([expect.stringContaining(`${urls.open[0] ?? ''}: `)]);
  silent.close();
});

it('leaves no socket open to what it cannot connect to', async () => {
  const sockets = (): number => process.getActiveResourcesInfo().filter((name) => name === 'UDPWrap').length;
  const before = sockets();
  const { context, lines } = contextOf({ signal: AbortSignal.timeout(1200) });
  // Only a socket that may broadcast connects to it.
  expect(await connectToAll(context, { open: ['udp://255.255.255.255:9'], closed: [] })).toBe(1);
  expect(lines).toEqual(['udp://255.255.255.255:9: no datagram is answered']);
  // They close a moment later.
  await expect.poll(sockets, { timeout: PATIENCE_MS }).toBeLessThanOrEqual(before);
});

it('tells a lost packet of full size from a target that answers nothing', async () => {
  using large = await startEcho();
  using none = await startEcho();
  large.echo.losesLarge = true;
  none.echo.isLosing = true;
  const { context, lines } = contextOf({ signal: AbortSignal.timeout(4500) });
  expect(await connectToAll(context, { open: [large.url, none.url], closed: [] })).toBe(1);
  expect(lines).toEqual([
    expect.stringMatching(/: a datagram that fills a packet \(\d+ bytes\) is lost although a small one is answered/),
    `${none.url}: no datagram is answered`,
  ]);
});

it('sends datagrams from lasting and new ports until it is stopped', async () => {
  using target = await startEcho();
  const [port] = portsForTest();
  const stop = new AbortController();
  const { context, lines } = contextOf({ stopped: stop.signal });
  target.echo.isLosing = true;
  const startedMs = performance.now();
  const flowing = watchFlow(context, [target.url], { port, smallOnly: [] });
  const ready = async () => (await fetch(`http://127.0.0.1:${String(port)}/`)).status;
  await until(async () => (await ready().catch(() => 0)) === 503, 'it serves, and nothing is answered');
  target.echo.isLosing = false;
  // What was sent before the first answer does not count, also when its time is over.
  await sleep(6000);
  await until(async () => (await ready()) === 200, 'everything is answered');
  stop.abort();
  expect(await flowing).toBe(0);
  expect(lines).toEqual([
    expect.stringMatching(/^udp:.*: \d+ datagrams sent, none lost$/),
    expect.stringMatching(/^udp:.*: \d+ full-size packets of \d+ bytes sent, none lost$/),
  ]);
  expect(target.echo.ports.size).toBeGreaterThan(10);
  // Their bandwidth: a packet a second.
  expect(target.echo.large).toBeLessThanOrEqual((performance.now() - startedMs) / 1000 + 1);
});

it('takes answers that come late for answers', async () => {
  using target = await startEcho();
  const [port] = portsForTest();
  const stop = new AbortController();
  const { context, lines } = contextOf({ stopped: stop.signal });
  const flowing = watchFlow(context, [target.url], { port, smallOnly: [] });
  const ready = async () => (await fetch(`http://127.0.0.1:${String(port)}/`)).status;
  await sleep(500);
  target.echo.isPaused = true;
  await sleep(5600);
  expect(await ready()).toBe(503);
  target.echo.resume();
  await until(async () => (await ready()) === 200, 'late answers are counted');
  stop.abort();
  expect(await flowing).toBe(0);
  expect(lines).toEqual([expect.stringMatching(/none lost$/), expect.stringMatching(/none lost$/)]);
});

it('ends with what was lost when everything is answered again', async () => {
  using good = await startEcho();
  using bad = await startEcho();
  const [port] = portsForTest();
  const { context, lines } = contextOf({});
  const flowing = watchFlow(context, [good.url, bad.url], { port, smallOnly: [] });
  await sleep(1000);
  bad.echo.isLosing = true;
  await sleep(1000);
  bad.echo.isLosing = false;
  expect(await flowing).toBe(1);
  expect(lines).toEqual([
    expect.stringMatching(/: \d+ datagrams sent, none lost$/),
    expect.stringMatching(/: \d+ full-size packets of \d+ bytes sent, none lost$/),
    expect.stringMatching(/: \d+ of \d+ datagrams lost within \d+\.\d s from \d{4}-\d\d-\d\dT.*Z$/),
    // Those of full size were lost with the small ones, or none was sent meanwhile.
    expect.stringMatching(/: \d+ (of \d+ )?full-size packets of \d+ bytes (lost as well|sent, none lost)$/),
  ]);
});

it('says that full-size packets do not arrive from the start, and watches small ones alone when it is asked to', async () => {
  using target = await startEcho();
  target.echo.losesLarge = true;
  const [port] = portsForTest();
  const { context, lines } = contextOf({});
  expect(await watchFlow(context, [target.url], { port, smallOnly: [] })).toBe(1);
  expect(lines[1]).toMatch(
    /: full-size packets of \d+ bytes do not arrive since the watch began, while small ones do; MTU: packets of at most 128 bytes arrive$/,
  );
  const stop = new AbortController();
  const again = contextOf({ stopped: stop.signal });
  const flowing = watchFlow(again.context, [target.url], { port, smallOnly: [target.url] });
  const ready = async () =>
    fetch(`http://127.0.0.1:${String(port)}/`).then(
      ({ status }) => status === 200,
      () => false,
    );
  await until(ready, 'small ones are answered');
  stop.abort();
  expect(await flowing).toBe(0);
  expect(again.lines).toEqual([expect.stringMatching(/ datagrams sent, none lost$/)]);
});
