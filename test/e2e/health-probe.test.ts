// The probe of an agent's pod against a real HTTP server.
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
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

async function serving(host: string, ownPod: string): Promise<AsyncDisposable & { readonly address: string }> {
  const server = createServer((request, response) => {
    const pod = new URL(request.url ?? '', 'http://agent').searchParams.get('pod');
    response.writeHead(pod === ownPod ? 200 : 503).end(pod === ownPod ? 'ready\n' : 'another agent\n');
  });
  await new Promise<void>((done) => {
    server.listen(0, host, done);
  });
  const { port } = server.address() as AddressInfo;
  return {
    address: host.includes(':') ? `[${host}]:${String(port)}` : `${host}:${String(port)}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise<void>((done) => {
        server.close(() => {
          done();
        });
      });
    },
  };
}

describe('netplug-probe', () => {
  it.each(['127.0.0.1', '::1'])('is ready only when the agent of its own pod answers, at %s', async (host) => {
    await using server = await serving(host, 'node-a1');
    const env = { NETPLUG_HEALTH_ADDRESS: server.address };
    expect(await probe('/readyz', { ...env, POD_NAME: 'node-a1' })).toEqual({ status: 0, out: 'ready\n', err: '' });
    expect(await probe('/readyz', { ...env, POD_NAME: 'node-b1' })).toMatchObject({
      status: 1,
      out: 'another agent\n',
    });
  });

  it('fails when no server listens, when the address cannot be read, and when the path is missing', async () => {
    const closed = await serving('127.0.0.1', '');
    await closed[Symbol.asyncDispose]();
    const env = { POD_NAME: 'a' };
    expect(await probe('/readyz', { ...env, NETPLUG_HEALTH_ADDRESS: closed.address })).toMatchObject({ status: 1 });
    expect((await probe('/readyz', { ...env, NETPLUG_HEALTH_ADDRESS: 'localhost' })).err).toContain(
      'is not an IP address',
    );
    expect((await probe('/readyz', { ...env, NETPLUG_HEALTH_ADDRESS: `${'1'.repeat(300)}:1` })).status).toBe(1);
    expect((await probe('x'.repeat(5000), { ...env, NETPLUG_HEALTH_ADDRESS: closed.address })).status).toBe(1);
  });
});
