import { once } from 'node:events';
import { chmod, lstat, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createConnection, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { askAgent } from './ask-agent.ts';
import { CallServer, type CallServerOptions } from './call-server.ts';
import type { ServeCall } from './conversation.ts';
import { encodeRequest } from './wire.ts';
import { PATIENCE_MS } from '../../../test/support/until.ts';

const signal = new AbortController().signal;
const request = encodeRequest({ kind: 'netplug', env: { A: 'b' }, stdin: '{}' });
const echo: ServeCall = async ({ kind, env, stdin }) =>
  Promise.resolve({ status: 0, stdout: JSON.stringify([kind, env, stdin]), stderr: 'log\n' });

let folder: string;
let path: string;
let scope: AsyncDisposableStack;
beforeEach(async () => {
  scope = new AsyncDisposableStack();
  folder = await mkdtemp(join(tmpdir(), 'netplug-agent-'));
  scope.defer(async () => rm(folder, { recursive: true, force: true }));
  path = join(folder, 'run/cni.sock');
});
afterEach(async () => scope.disposeAsync());

async function listening(more: Partial<CallServerOptions> = {}): Promise<CallServer> {
  const server = new CallServer({ serve: echo, clock: systemClock, log: silentLog, ...more });
  scope.defer(async () => void (await server.stop(0)));
  await server.listen(path);
  await server.publish();
  return server;
}

async function serving(more: Partial<CallServerOptions> = {}): Promise<CallServer> {
  const server = await listening(more);
  server.start();
  return server;
}

async function caller(): Promise<Socket> {
  const socket = createConnection({ path });
  scope.defer(() => void socket.destroy());
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return socket;
}

/** Everything that comes until the end. */
async function heard(socket: Socket): Promise<string> {
  let all = '';
  socket.setEncoding('latin1').on('data', (text: string) => (all += text));
  await once(socket, 'close');
  return all;
}

const ask = async (stdin = 'x') => askAgent(path, { kind: 'show-calls', stdin }, signal);

/** A call that ends on request, and reports when it is rolled back. */
function held(): { serve: ServeCall; begun: Promise<unknown>; release: () => void; undoEntry: Promise<unknown> } {
  const events = new EventTarget();
  const released = once(events, 'released');
  const serve: ServeCall = async (call, gone) => {
    events.dispatchEvent(new Event('begun'));
    const aborted = once(gone, 'abort').then(() => events.dispatchEvent(new Event('taken back')));
    await Promise.race([released, aborted]);
    return echo(call, gone);
  };
  return {
    serve,
    begun: once(events, 'begun'),
    release: () => events.dispatchEvent(new Event('released')),
    undoEntry: once(events, 'taken back'),
  };
}

describe('the socket of the agent', () => {
  it('is accessible to its owner only, and is removed when the server stops', async () => {
    const server = await serving();
    expect((await lstat(path)).mode & 0o777).toBe(0o600);
    expect((await lstat(join(folder, 'run'))).mode & 0o022).toBe(0);
    expect(await readdir(join(folder, 'run'))).toEqual(['cni.sock']);
    await server.stop(1000);
    expect(await readdir(join(folder, 'run'))).toEqual([]);
  });

  it('is replaced by another server, whose socket the first server does not remove', async () => {
    const old = await serving();
    const young = await listening({ serve: async () => Promise.resolve({ status: 3, stdout: 'young', stderr: '' }) });
    const waiting = ask();
    await old.stop(1000);
    young.start();
    expect(await waiting).toEqual({ status: 3, stdout: 'young', stderr: '' });
    expect(await readdir(join(folder, 'run'))).toEqual(['cni.sock']);
  });

  it('is detected as displaced when it is replaced or removed', async () => {
    const [old] = [await serving(), await serving()];
    await old.waitUntilSuperseded(signal);
    const lost = await serving();
    await rm(path);
    await lost.waitUntilSuperseded(signal);
    const stop = new AbortController();
    const kept = (await serving()).waitUntilSuperseded(stop.signal);
    stop.abort(new Error('told to stop'));
    await expect(kept).rejects.toThrow('told to stop');
  });

  it('replaces the socket of a killed agent', async () => {
    await mkdir(join(folder, 'run'));
    await writeFile(path, '');
    await serving();
    expect((await ask()).status).toBe(0);
  });

  it('is not created in a folder that other users may write', async () => {
    await mkdir(join(folder, 'run'));
    await chmod(join(folder, 'run'), 0o777);
    await expect(listening()).rejects.toMatchObject({ code: 'agent/socket-unusable' });
    await writeFile(join(folder, 'file'), '');
    path = join(folder, 'file/cni.sock');
    await expect(listening()).rejects.toMatchObject({ code: 'agent/socket-unusable' });
    path = join(folder, `${'x'.repeat(120)}.sock`);
    await expect(listening()).rejects.toMatchObject({ code: 'agent/socket-unusable' });
    expect(await readdir(join(folder, 'run'))).toEqual([]);
  });
});

describe('a call to the agent', () => {
  it('is served, concurrently with many others', async () => {
    const counts: number[] = [];
    await serving({ onCount: (inFlight) => counts.push(inFlight) });
    const answers = await Promise.all(Array.from({ length: 64 }, async (_, index) => ask(String(index))));
    expect(answers.map(({ stdout }) => JSON.parse(stdout)[2])).toEqual(answers.map((_, index) => String(index)));
    expect(counts.at(-1)).toBe(0);
    expect(Math.max(...counts)).toBeLessThanOrEqual(64);
  });

  it('is answered with an error when it fails, and the next one is served', async () => {
    let turn = 0;
    await serving({
      serve: (call, gone) => {
        turn += 1;
        if (turn === 1) throw new Error('at once');
        return turn === 2 ? Promise.reject(new Error('later')) : echo(call, gone);
      },
    });
    for (const message of ['at once', 'later']) {
      const { status, stdout } = await ask();
      expect(status).toBe(1);
      expect(JSON.parse(stdout)).toMatchObject({ code: 999, msg: `Cannot finish the call: ${message}` });
    }
    expect((await ask()).status).toBe(0);
  });

  it('is rolled back when its caller closes the connection', async () => {
    const { serve, begun, undoEntry } = held();
    await serving({ serve });
    const socket = await caller();
    await once(socket, 'data');
    socket.write(request);
    await begun;
    socket.destroy();
    await expect(undoEntry).resolves.toBeDefined();
  });

  it('is rolled back when its caller closes its sending side, and answers with the outcome', async () => {
    const { serve, begun, undoEntry } = held();
    await serving({ serve });
    const socket = await caller();
    await once(socket, 'data');
    socket.end(request);
    await begun;
    await expect(undoEntry).resolves.toBeDefined();
    expect(await heard(socket)).toContain('["netplug"');
  });

  it('is not served before the server is started', async () => {
    const server = await listening();
    const early = await caller();
    early.write(request);
    // The shim sends nothing before the hello.
    expect(await heard(early)).toBe('');
    const patient = ask();
    server.start();
    expect((await patient).status).toBe(0);
  });
});

describe('a hostile caller', () => {
  it('is disconnected when it sends nothing or reads slowly, and delays no other caller', async () => {
    const large = 'x'.repeat(8_000_000);
    await serving({
      serve: async () => Promise.resolve({ status: 0, stdout: large, stderr: '' }),
      requestMs: 1500,
      // Eight megabytes take a while on a busy machine.
      answerMs: 5000,
    });
    const [silent, slow] = [await caller(), await caller()];
    slow.once('data', () => {
      slow.pause();
      slow.write(request);
    });
    expect(await heard(silent)).toBe('NPA1');
    expect((await ask()).stdout).toBe(large);
    slow.resume();
    await once(slow, 'close');
  });

  it('gets an error for an invalid request', async () => {
    await serving();
    for (const nonsense of [Buffer.alloc(12, 255), Buffer.concat([request, request])]) {
      const socket = await caller();
      await once(socket, 'data');
      socket.write(nonsense);
      expect(await heard(socket)).toContain('"code": 172');
    }
    expect((await ask()).status).toBe(0);
  });

  it('is disconnected at once beyond the limit of connections', async () => {
    await serving({ maxConnections: 2 });
    const [first] = [await caller(), await caller()];
    expect(await heard(await caller())).toBe('');
    first.destroy();
    await expect
      .poll(
        async () =>
          ask().then(
            ({ status }) => status,
            () => 'closed',
          ),
        { timeout: PATIENCE_MS },
      )
      .toBe(0);
  });
});

describe('stopping the call server', () => {
  it('waits for callers that got a hello, and disconnects the others', async () => {
    const { serve, begun, release } = held();
    const server = await serving({ serve });
    const slow = await caller();
    await once(slow, 'data');
    const answer = ask();
    await begun;
    const stopped = server.stop(10_000);
    release();
    expect((await answer).status).toBe(0);
    slow.write(request);
    expect(await heard(slow)).toContain('netplug');
    await stopped;

    const unstarted = await listening();
    const waiting = await caller();
    const closed = heard(waiting);
    await unstarted.stop(10_000);
    expect(await closed).toBe('');
    await expect(ask()).rejects.toMatchObject({ code: 'agent/unreachable' });
  });

  it('rolls back calls that exceed the limit, so that their callers run the standalone program', async () => {
    const { serve, begun, undoEntry } = held();
    const server = await serving({ serve });
    const silent = await caller();
    const answer = ask();
    await begun;
    const closed = heard(silent);
    await Promise.all([server.stop(50), expect(answer).rejects.toMatchObject({ code: 'agent/unreachable' })]);
    await undoEntry;
    expect(await closed).toMatch(/^(NPA1)?$/);
  });

  it('completes although a call never ends', async () => {
    const server = await serving({ serve: async () => new Promise(() => undefined), answerMs: 50 });
    const socket = await caller();
    await once(socket, 'data');
    socket.write(request);
    await server.stop(50);
    expect(await heard(socket)).toBe('');
  });
});

describe('a request to the agent', () => {
  it('fails with the reason when nothing listens, or a program that is not an agent', async () => {
    await expect(ask()).rejects.toMatchObject({
      code: 'agent/unreachable',
      message: expect.stringContaining('ENOENT'),
    });
    await mkdir(join(folder, 'run'));
    const stranger = createServer((socket) => socket.on('error', () => undefined).end('HTTP/1.1 400'));
    scope.defer(() => void stranger.close());
    stranger.listen(path);
    await once(stranger, 'listening');
    await expect(ask()).rejects.toMatchObject({ message: expect.stringContaining('is not an agent') });
    await expect(
      askAgent(path, { kind: 'take-over', stdin: '' }, AbortSignal.abort(new Error('over'))),
    ).rejects.toThrow('over');
  });
});
