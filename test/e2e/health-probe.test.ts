// The probe of an agent's pod against a real HTTP server.
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { BUILT } from '../support/built.ts';

const PROGRAM = join(BUILT, 'netplug-probe');

interface Outcome {
  readonly status: number;
  readonly out: string;
  readonly err: string;
}

async function probe(path: string, env: Readonly<Record<string, string>>): Promise<Outcome> {
  return new Promise((done) => {
    execFile(PROGRAM, [path], { env }, (cause, out, err) => {
      done({ status: cause === null ? 0 : Number(cause.code), out, err });
    });
  });
}

/** Serves at the socket for probes beside the socket of calls, as an agent of the pod does. */
async function serving(ownPod: string): Promise<AsyncDisposable & { readonly socket: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'npl-probe-'));
  const server = createServer((request, response) => {
    const pod = new URL(request.url ?? '', 'http://agent').searchParams.get('pod');
    response.writeHead(pod === ownPod ? 200 : 503).end(pod === ownPod ? 'ready\n' : 'another agent\n');
  });
  await new Promise<void>((done) => {
    server.listen({ path: join(folder, 'probes.sock') }, done);
  });
  return {
    socket: join(folder, 'cni.sock'),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise<void>((done) => {
        server.close(() => {
          done();
        });
      });
      rmSync(folder, { recursive: true });
    },
  };
}

describe('netplug-probe', () => {
  it('is ready only when the agent of its own pod answers', async () => {
    await using server = await serving('node-a1');
    const env = { NETPLUG_SOCKET: server.socket };
    expect(await probe('/readyz', { ...env, POD_NAME: 'node-a1' })).toEqual({ status: 0, out: 'ready\n', err: '' });
    expect(await probe('/readyz', { ...env, POD_NAME: 'node-b1' })).toMatchObject({
      status: 1,
      out: 'another agent\n',
    });
  });

  it('fails when no agent listens, and when the path of the socket or of the page is too long', async () => {
    await using server = await serving('a');
    const env = { POD_NAME: 'a', NETPLUG_SOCKET: server.socket };
    expect(await probe('/readyz', { ...env, NETPLUG_SOCKET: '/nowhere/cni.sock' })).toMatchObject({
      status: 1,
      err: 'no agent listens at /nowhere/probes.sock\n',
    });
    expect(await probe('/readyz', { ...env, NETPLUG_SOCKET: `/${'1'.repeat(300)}/cni.sock` })).toMatchObject({
      status: 1,
      err: 'the path of NETPLUG_SOCKET is too long\n',
    });
    expect((await probe('x'.repeat(5000), env)).status).toBe(1);
  });
});
