import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type ServerOpts, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CallServer } from '../../src/apps/agent/call-server.ts';
import type { ServeCall } from '../../src/apps/agent/conversation.ts';
import { type CallAnswer, type CallRequest, encodeAnswer, HELLO, readRequest } from '../../src/apps/agent/wire.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import type { Json, RunResult } from '../support/node.ts';
import { until } from '../support/until.ts';
import { BUILT } from '../support/built.ts';

const MIB = 1024 * 1024;

let scope: AsyncDisposableStack;
let folder: string;
let path: string;
beforeEach(async () => {
  scope = new AsyncDisposableStack();
  folder = await mkdtemp(join(tmpdir(), 'netplug-shim-'));
  scope.defer(async () => rm(folder, { recursive: true, force: true }));
  path = join(folder, 'cni.sock');
  for (const name of ['netplug', 'netplug-ipam']) await copyFile(join(BUILT, 'netplug'), join(folder, name));
  await writeFile(join(folder, 'netplug-standalone'), '#!/bin/sh\nprintf "alone $MARK "; cat\n', { mode: 0o755 });
});
afterEach(async () => scope.disposeAsync());

type Agent = (socket: Socket) => void;

/** Listens as the agent does, at a path of its own. */
async function agentThat(act: Agent, at = path, options: ServerOpts = {}): Promise<void> {
  const sockets = new Set<Socket>();
  const server = createServer(options, (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    act(socket);
  });
  scope.defer(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  server.listen(at);
  await once(server, 'listening');
}

/** Says hello, and goes on when the whole request is there. */
function onRequest(act: (request: CallRequest, socket: Socket) => void): Agent {
  return (socket) => {
    const reader = readRequest();
    socket.on('data', (bytes) => {
      const request = reader.push(bytes);
      if (request !== undefined) act(request, socket);
    });
    socket.write(HELLO);
  };
}

interface Call {
  readonly program?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
}

function start({ program = 'netplug', env = {} }: Call): ChildProcessWithoutNullStreams {
  return spawn(join(folder, program), { env: { CNI_COMMAND: 'ADD', NETPLUG_SOCKET: path, MARK: 'm', ...env } });
}

async function call({ stdin = '{"a": 1}', ...more }: Call = {}): Promise<RunResult> {
  return outcome(start(more), stdin);
}

async function outcome(child: ChildProcessWithoutNullStreams, stdin: string): Promise<RunResult> {
  const output = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const)
    child[stream].setEncoding('utf8').on('data', (text: string) => (output[stream] += text));
  child.stdin.on('error', () => undefined);
  child.stdin.end(stdin);
  const [status] = (await once(child, 'close')) as [number | null];
  return { status: status ?? undefined, ...output };
}

/** A call while such an agent listens at a path of its own. */
async function callAt(agent: Agent, { name, env, ...more }: Call & { readonly name: string }): Promise<RunResult> {
  const own = join(folder, `${name.replaceAll(' ', '-')}.sock`);
  await agentThat(agent, own);
  return call({ ...more, env: { ...env, NETPLUG_SOCKET: own } });
}

const ALONE = { status: 0, stdout: 'alone m {"a": 1}', stderr: '' };

/** Writes a byte now and then, as long as the other end is open. */
function drip(socket: Socket, bytes: Buffer): void {
  let at = 0;
  const timer = setInterval(() => socket.write(bytes.subarray(at, (at += 1))), 20);
  socket.on('close', () => {
    clearInterval(timer);
  });
}

function head(...numbers: number[]): Buffer {
  const bytes = Buffer.alloc(4 * numbers.length);
  for (const [index, number] of numbers.entries()) bytes.writeUInt32LE(number, 4 * index);
  return bytes;
}

describe('a call that the agent accepts', () => {
  it('is passed on unchanged, and its response printed unchanged', async () => {
    const requests: CallRequest[] = [];
    const answer: CallAnswer = { status: 7, stdout: 'o'.repeat(3 * MIB), stderr: 'e'.repeat(2 * MIB) };
    await agentThat(
      onRequest((request, socket) => {
        requests.push(request);
        socket.end(encodeAnswer(answer));
      }),
    );
    const many = Object.fromEntries(
      Array.from({ length: 9 }, (_, index) => [`V${String(index)}`, 'v'.repeat(110_000)]),
    );
    const stdin = 'i'.repeat(4 * MIB);
    expect(await call({ env: { ...many, CNI_ARGS: 'ü=1' }, stdin })).toEqual(answer);
    expect(await call({ program: 'netplug-ipam', stdin: '' })).toEqual(answer);
    expect(requests).toEqual([
      {
        kind: 'netplug',
        stdin,
        env: { CNI_COMMAND: 'ADD', NETPLUG_SOCKET: path, MARK: 'm', ...many, CNI_ARGS: 'ü=1' },
      },
      { kind: 'netplug-ipam', stdin: '', env: { CNI_COMMAND: 'ADD', NETPLUG_SOCKET: path, MARK: 'm' } },
    ]);
  });

  it('is answered although the agent sends more data, or single bytes', async () => {
    const answer = encodeAnswer({ status: 0, stdout: 'out', stderr: 'err' });
    const expected = { status: 0, stdout: 'out', stderr: 'err' };
    await agentThat(onRequest((_, socket) => socket.write(Buffer.concat([answer, Buffer.alloc(MIB)]))));
    expect(await call()).toEqual(expected);
    const other = join(folder, 'drip.sock');
    await agentThat((socket) => {
      drip(socket, Buffer.concat([HELLO, answer]));
    }, other);
    expect(await call({ env: { NETPLUG_SOCKET: other } })).toEqual(expected);
  });

  it('is cancelled when the runtime kills the shim', async () => {
    const seen: string[] = [];
    await agentThat(
      onRequest((_, socket) => {
        seen.push('request');
        socket.on('close', () => seen.push('gone'));
      }),
    );
    const child = start({});
    const ended = outcome(child, '{}');
    await until(() => seen.length === 1, 'the agent has the request');
    child.kill('SIGKILL');
    expect((await ended).status).toBeUndefined();
    await until(() => seen.length === 2, 'the agent knows');
  });

  it('is undone on SIGTERM, and the response reports the outcome', async () => {
    let request: Socket | undefined;
    await agentThat(
      onRequest((_, socket) => {
        request = socket;
      }),
      path,
      { allowHalfOpen: true },
    );
    const asked = async (): Promise<{
      child: ChildProcessWithoutNullStreams;
      agent: Socket;
      result: Promise<RunResult>;
    }> => {
      request = undefined;
      const child = start({});
      const result = outcome(child, '{}');
      await until(() => request !== undefined, 'the agent has the request');
      return { child, agent: request!, result };
    };
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      const { child, agent, result } = await asked();
      child.kill(signal);
      await once(agent, 'end');
      agent.end(encodeAnswer({ status: 1, stdout: 'taken back', stderr: '' }));
      expect(await result).toMatchObject({ status: 1, stdout: 'taken back' });
    }
    const { child, agent, result } = await asked();
    child.kill('SIGTERM');
    await once(agent, 'end');
    agent.destroy();
    const { status, stdout } = await result;
    expect([status, JSON.parse(stdout)]).toMatchObject([1, { code: 11, msg: expect.stringContaining('interrupted') }]);
  });

  it('is one of 64 at once', async () => {
    await agentThat(
      onRequest(({ stdin }, socket) => socket.end(encodeAnswer({ status: 0, stdout: stdin, stderr: '' }))),
    );
    const calls = Array.from({ length: 64 }, (_, index) => String(index));
    // Not started from here: this process must be free to say hello within a second.
    const script = `for call in ${calls.join(' ')}; do printf $call | ./netplug >answer-$call & done; wait`;
    const shell = spawn('sh', ['-c', script], {
      cwd: folder,
      env: { PATH: process.env['PATH'], CNI_COMMAND: 'ADD', NETPLUG_SOCKET: path, MARK: 'm' },
    });
    await once(shell, 'exit');
    const answers = await Promise.all(calls.map(async (call) => readFile(join(folder, `answer-${call}`), 'utf8')));
    // On a busy machine the shim may have waited a second in vain, and serve the call alone.
    expect(answers.map((answer) => answer.replace(/^alone m /, ''))).toEqual(calls);
    expect(answers.filter((answer) => calls.includes(answer)).length).toBeGreaterThan(32);
  });

  it('prints its result although no program reads the log', async () => {
    const answer = { status: 3, stdout: 'out', stderr: 'e'.repeat(MIB) };
    await agentThat(onRequest((_, socket) => socket.end(encodeAnswer(answer))));
    const closed = start({});
    closed.stderr.destroy();
    expect(await outcome(closed, '')).toMatchObject({ status: 3, stdout: 'out' });
    const env = { CNI_COMMAND: 'ADD', NETPLUG_SOCKET: path };
    const without = spawn('sh', ['-c', 'exec "$0" <&- 2>&-', join(folder, 'netplug')], { env });
    expect(await outcome(without, '')).toMatchObject({ status: 3, stdout: 'out' });
  });
});

describe('an agent that takes over from another', () => {
  it('leaves every call to exactly one of them', async () => {
    path = join(folder, 'run/cni.sock');
    const served: string[] = [];
    const agent = async (name: string): Promise<CallServer> => {
      const serve: ServeCall = async ({ stdin }) => {
        served.push(stdin);
        await sleep(20);
        return { status: 0, stdout: name, stderr: '' };
      };
      const server = new CallServer({ serve, clock: systemClock, log: silentLog });
      scope.defer(async () => void (await server.stop(0)));
      await server.listen(path);
      await server.publish();
      return server;
    };
    const old = await agent('old');
    old.start();
    // Not started from here: this process must be free to say hello within a second.
    const calls = Array.from({ length: 60 }, (_, index) => String(index));
    const script = `for call in ${calls.join(' ')}; do printf $call | ./netplug >taken-$call & sleep 0.01; done; wait`;
    const shell = spawn('sh', ['-c', script], {
      cwd: folder,
      env: { PATH: process.env['PATH'], CNI_COMMAND: 'ADD', NETPLUG_SOCKET: path, MARK: 'm' },
    });
    const ended = once(shell, 'exit');
    await until(() => served.length >= 20, 'the old agent has served calls');
    const young = await agent('young');
    await old.stop(5000);
    young.start();
    await ended;
    const names = await Promise.all(calls.map(async (each) => readFile(join(folder, `taken-${each}`), 'utf8')));
    // On a busy machine the shim may have waited a second in vain, and serve the call alone.
    const alone = calls.filter((each, index) => names[index] === `alone m ${each}`);
    expect(alone.length).toBeLessThan(6);
    expect(new Set(names.filter((name) => !name.startsWith('alone ')))).toEqual(new Set(['old', 'young']));
    expect(served.toSorted((x, y) => Number(x) - Number(y))).toEqual(calls.filter((each) => !alone.includes(each)));
  });
});

describe('a call runs netplug-standalone', () => {
  const cases: [string, Agent][] = [
    ['never says hello', () => undefined],
    ['says half of it', (socket) => socket.write('NP')],
    ['says something else', (socket) => socket.write('HTTP/1.1 200 OK\r\n\r\n')],
    ['closes at once', (socket) => socket.destroy()],
    ['closes after half a hello', (socket) => socket.end('NPA')],
    ['closes after hello', (socket) => socket.end(HELLO)],
    ['closes when it has the request', onRequest((_, socket) => socket.destroy())],
    ['gives half a head', onRequest((_, socket) => socket.end(head(0, 1)))],
    ['gives half an answer', onRequest((_, socket) => socket.end(Buffer.concat([head(0, 10, 0), head(1)])))],
    ['announces too much for stdout', onRequest((_, socket) => socket.write(head(0, 16 * MIB + 1, 0)))],
    ['announces too much for stderr', onRequest((_, socket) => socket.write(head(0, 0, 0xffffffff)))],
    ['gives no status', onRequest((_, socket) => socket.write(head(256, 0, 0)))],
  ];
  it('when the agent is dead, silent or sends an invalid response', async () => {
    const outcomes = cases.map(async ([what, agent]) => [what, await callAt(agent, { name: what })] as const);
    expect(Object.fromEntries(await Promise.all(outcomes))).toEqual(
      Object.fromEntries(cases.map(([what]) => [what, ALONE])),
    );
  });

  it('when no agent listens', async () => {
    expect(await call()).toEqual(ALONE);
    await writeFile(path, '');
    expect(await call()).toEqual(ALONE);
    expect(await call({ env: { NETPLUG_SOCKET: `/${'x'.repeat(300)}` } })).toEqual(ALONE);
  });

  it('when the agent exits in the middle of a large request', async () => {
    await agentThat((socket) => {
      socket.write(HELLO);
      socket.once('data', () => socket.destroy());
    });
    const stdin = 'i'.repeat(4 * MIB);
    expect(await call({ stdin })).toEqual({ ...ALONE, stdout: `alone m ${stdin}` });
  });

  it('when the request is larger than the agent accepts', async () => {
    const requests: CallRequest[] = [];
    await agentThat(onRequest((request) => requests.push(request)));
    // The standalone program refuses one byte too many, and need not see more.
    const { stdout } = await call({ stdin: 'i'.repeat(10 * MIB) });
    expect(stdout).toBe(`alone m ${'i'.repeat(4 * MIB + 1)}`);
    const many = Object.fromEntries(
      Array.from({ length: 10 }, (_, index) => [`V${String(index)}`, 'v'.repeat(110_000)]),
    );
    expect(await call({ env: many })).toEqual(ALONE);
    expect(requests).toEqual([]);
  });

  it('when another user listens, and sends that user nothing', async () => {
    const common = join(folder, 'common');
    await chmod(folder, 0o755);
    await mkdir(common);
    await chmod(common, 0o777);
    const env = { NETPLUG_SOCKET: join(common, 'cni.sock') };
    const asNobody = ['--reuid=65534', '--regid=65534', '--clear-groups'];
    const stranger = spawn('setpriv', [...asNobody, 'sh', '-c', 'printf NPA1 | nc -lU "$0"', env.NETPLUG_SOCKET]);
    let learnt = '';
    stranger.stdout.setEncoding('utf8').on('data', (text: string) => (learnt += text));
    scope.defer(() => void stranger.kill());
    await until(async () => {
      expect(await call({ env })).toEqual(ALONE);
      return stranger.exitCode !== null;
    }, 'it has had its visitor');
    expect(learnt).toBe('');
  });

  it('when CNI_COMMAND is not set, without asking the agent', async () => {
    let connections = 0;
    await agentThat(() => (connections += 1));
    expect(await call({ env: { CNI_COMMAND: '' } })).toEqual(ALONE);
    expect(connections).toBe(0);
  });

  it('with the real program, under the name of the call', async () => {
    await rm(join(folder, 'netplug-standalone'));
    await copyFile(join(BUILT, 'netplug-standalone'), join(folder, 'netplug-standalone'));
    for (const program of ['netplug', 'netplug-ipam']) {
      const usage = await call({ program, env: { CNI_COMMAND: '' } });
      expect(usage).toMatchObject({ status: 0, stderr: expect.stringMatching(new RegExp(`^${program} v`)) });
    }
    await agentThat(onRequest((_, socket) => socket.destroy()));
    const env = { CNI_COMMAND: 'VERSION' };
    const refused = await call({ env, stdin: 'x'.repeat(5 * MIB) });
    expect(JSON.parse(refused.stdout)).toMatchObject({ code: 6, msg: expect.stringContaining('more than 4194304') });
    const version = await call({ env, stdin: '{"cniVersion": "1.0.0"}' });
    expect(JSON.parse(version.stdout)).toMatchObject({ cniVersion: '1.0.0' });
  });
});

describe('a call that cannot be finished', () => {
  const cases: [string, Agent][] = [
    ['never answers', onRequest(() => undefined)],
    ['drips', onRequest((_, socket) => drip(socket, Buffer.concat([head(0, MIB, 0), Buffer.alloc(MIB)])))],
    ['never reads', (socket) => socket.pause().write(HELLO)],
  ];
  it('fails with "try again later" when the agent never answers, never ends or never reads', async () => {
    const env = { NETPLUG_CALL_TIMEOUT: '0.3' };
    const stdin = 'i'.repeat(4 * MIB);
    const results = cases.map(async ([name, agent]) => callAt(agent, { name, stdin, env }));
    for (const { status, stdout } of await Promise.all(results)) {
      expect(status).toBe(1);
      expect(errorOf(stdout)).toMatchObject({ code: 11, details: expect.stringMatching(/code: cni\/deadline$/) });
    }
  });

  it('names the program that is missing', async () => {
    await rm(join(folder, 'netplug-standalone'));
    const { status, stdout } = await call();
    expect(status).toBe(1);
    expect(errorOf(stdout)).toMatchObject({ code: 11, details: expect.stringMatching(/code: install\/incomplete$/) });
    expect(errorOf(stdout).msg).toContain(`'${folder}/netplug-standalone' cannot be executed: No such file`);
    const odd = join(folder, 'a"\\\n');
    await mkdir(odd);
    await copyFile(join(BUILT, 'netplug'), join(odd, 'netplug'));
    const elsewhere = await outcome(
      spawn(join(odd, 'netplug'), { env: { CNI_COMMAND: 'ADD', NETPLUG_SOCKET: path } }),
      '',
    );
    expect(errorOf(elsewhere.stdout).msg).toContain('/a???/netplug-standalone');
  });
});

function errorOf(stdout: string): Json {
  const error: Json = JSON.parse(stdout);
  expect(error).toMatchObject({ cniVersion: '1.0.0', msg: expect.stringMatching(/^Cannot /) });
  return error;
}
