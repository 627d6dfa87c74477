import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { poolOf } from '../support/fixtures.ts';
import { openKvStore, type KvStoreOptions } from '../../src/datastore/kv/kv-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { emptyBlock } from '../../src/model/ip-block.ts';
import type { NodeName } from '../../src/model/names.ts';
import { API_VERSION } from '../../src/model/resource.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { startEtcd } from '../support/etcd.ts';
import { freePort } from '../support/free-port.ts';
import { PATIENCE_MS } from '../support/until.ts';

const never = new AbortController().signal;
const node = 'n1' as NodeName;
/** Short, since endpoints that never answer are waited for, and long enough for an etcd beside other programs. */
const limits = { connectMs: 1500, firstTryMs: 1500, answerMs: 3000 };

function open(urls: readonly string[], options: KvStoreOptions = {}): Store {
  const files = { keyFile: undefined, certFile: undefined, caCertFile: undefined };
  return openKvStore({ endpoints: { from: 'list', urls }, ...files }, { limits, ...options });
}

/** A server that accepts connections and then does with them what `act` does. */
async function stubServer(act: (socket: Socket) => void): Promise<AsyncDisposable & { url: string }> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined));
    act(socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = address !== null && typeof address === 'object' ? address.port : 0;
  return {
    url: `http://127.0.0.1:${String(port)}`,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
const silent = async (): ReturnType<typeof stubServer> => stubServer((socket) => socket.resume());
const deadUrl = async (): Promise<string> => `http://127.0.0.1:${String(await freePort())}`;

const put = {
  kind: 'put-endpoint',
  endpoint: {
    apiVersion: API_VERSION,
    kind: 'WorkloadEndpoint',
    metadata: { name: 'e', namespace: 'default' },
    spec: {
      orchestrator: 'cni',
      node,
      network: 'net',
      containerID: 'c1',
      endpoint: 'eth0',
      interfaceName: 'npl0',
      mac: '0a:00:00:00:00:01',
      ipNetworks: [],
      profiles: [],
      ipam: 'netplug-ipam',
    },
  },
} as const;

describe('a list of endpoints', () => {
  it('is tried until one answers [kv-endpoints]', async () => {
    await using etcd = await startEtcd();
    await using mute = await silent();
    await using hasty = await stubServer((socket) => socket.destroy());
    const dead = await deadUrl();
    for (const others of [[], [dead], [mute.url], [hasty.url], [dead, mute.url, hasty.url]]) {
      const asked: string[] = [];
      await using store = open([...others, etcd.url], { onRequest: (method) => asked.push(method) });
      expect(await store.commit([put], never)).toBe('committed');
      expect((await store.listEndpoints(node, never)).endpoints).toHaveLength(1);
      asked.length = 0;
      await store.ping(never);
      // The endpoint that answered is asked first from then on.
      expect(asked).toEqual(['Range']);
    }
  });

  it('fails with store/unavailable in bounded time when no endpoint answers, naming each and why', async () => {
    const dead = [await deadUrl(), await deadUrl()];
    await using store = open(dead);
    await expect(store.ping(never)).rejects.toMatchObject({
      code: 'store/unavailable',
      message: expect.stringMatching(new RegExp(`${dead[0] ?? ''}, ${dead[1] ?? ''}.*ECONNREFUSED`)) as string,
    });
    await expect(store.commit([put], never)).rejects.toMatchObject({ code: 'store/unavailable' });
  });

  it('fails with store/unavailable in bounded time when endpoints accept connections and never answer', async () => {
    await using mute = await silent();
    await using store = open([mute.url, mute.url.replace('127.0.0.1', 'localhost')]);
    const before = performance.now();
    await expect(store.ping(never)).rejects.toMatchObject({ code: 'store/unavailable' });
    expect(performance.now() - before).toBeLessThan(PATIENCE_MS);
  });

  it('uses an endpoint again that was unavailable for a while', async () => {
    const sockets: Socket[] = [];
    await using etcd = await startEtcd();
    await using proxy = await stubServer((socket) => {
      const upstream = new (socket.constructor as new () => Socket)().connect(etcd.port, '127.0.0.1');
      upstream.on('error', () => undefined);
      sockets.push(socket, upstream);
      socket.pipe(upstream).pipe(socket);
    });
    await using store = open([proxy.url]);
    await store.ping(never);
    for (const socket of sockets.splice(0)) socket.destroy();
    await expect(store.ping(never)).resolves.toBeUndefined();
    expect(await store.commit([put], never)).toBe('committed');
  });

  it('ends with the signal of the caller, and names the endpoint in the error', async () => {
    await using mute = await silent();
    await using store = open([mute.url], { limits: { connectMs: 20_000, firstTryMs: 20_000, answerMs: 20_000 } });
    const caught: unknown = await store.ping(AbortSignal.timeout(100)).catch((error: unknown) => error);
    expect(caught).toMatchObject({ code: 'store/unavailable', message: expect.stringContaining(mute.url) as string });
    const own = new Error('not ours');
    await expect(store.ping(AbortSignal.abort(own))).rejects.toMatchObject({ code: 'store/unavailable', cause: own });
  });

  it('reports that a change may have been made when the answer to a write is lost', async () => {
    await using etcd = await startEtcd();
    let isCut = false;
    await using proxy = await stubServer((socket) => {
      const upstream = new (socket.constructor as new () => Socket)().connect(etcd.port, '127.0.0.1');
      upstream.on('error', () => undefined);
      socket.pipe(upstream);
      upstream.on('data', (data) => {
        if (!isCut) socket.write(data);
      });
    });
    await using store = open([proxy.url]);
    await store.ping(never);
    isCut = true;
    await expect(store.commit([put], never)).rejects.toMatchObject({
      code: 'store/unavailable',
      message: expect.stringContaining('it is not known whether the change was made') as string,
    });
    await using direct = open([etcd.url]);
    expect((await direct.listEndpoints(node, never)).endpoints).toHaveLength(1);
  });

  it.each([[], ['ftp://127.0.0.1:1'], ['127.0.0.1:2379'], ['http://']])(
    'such as %j is store/config-invalid',
    async (...urls) => {
      await using store = open(urls.filter((url) => url !== ''));
      await expect(store.ping(never)).rejects.toMatchObject({ code: 'store/config-invalid' });
    },
  );

  it('fails with store/unavailable when an endpoint speaks no gRPC', async () => {
    await using web = await stubServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n'));
    await using store = open([web.url]);
    await expect(store.ping(never)).rejects.toMatchObject({ code: 'store/unavailable' });
  });
});

describe('the number of requests', () => {
  it('is none to open, one to read a view, one to commit, and two to read a view with borrowed blocks', async () => {
    await using etcd = await startEtcd();
    const asked: string[] = [];
    await using store = open([etcd.url], { onRequest: (method) => asked.push(method) });
    const counted = async <T>(work: Promise<T>): Promise<{ result: T; requests: number }> => {
      asked.length = 0;
      const result = await work;
      return { result, requests: asked.length };
    };
    expect(asked).toEqual([]);
    expect((await counted(store.readNodeView(node, undefined, never))).requests).toBe(1);
    await store.createResource(poolOf('blue', '10.0.0.0/16', { allowedUses: ['Workload'] }), never);
    const { result: view, requests } = await counted(
      store.readNodeView(node, { node, namespace: 'default', name: 'e' }, never),
    );
    expect(requests).toBe(1);
    const [pool] = view.pools;
    if (pool === undefined) throw new Error('no pool');
    const created = emptyBlock(parseCidr('10.0.0.0/26'), 'n2' as NodeName);
    const lent = {
      ...created,
      queue: created.queue.slice(1),
      slots: new Map([
        [
          0,
          {
            id: '1',
            handle: 'c1/eth0/net' as never,
            node,
            network: 'net',
            containerId: 'c1',
            ifName: 'eth0',
            at: '2026-01-01T00:00:00Z',
            chosenBy: 'request' as const,
          },
        ],
      ]),
    };
    expect(await counted(store.commit([{ kind: 'create-block', block: lent, pool }, put], never))).toEqual({
      result: 'committed',
      requests: 1,
    });
    expect(await counted(store.commit([], never))).toEqual({ result: 'committed', requests: 0 });
    expect((await counted(store.readNodeView(node, undefined, never))).requests).toBe(2);
    expect((await counted(store.readNodeView('n2' as NodeName, undefined, never))).requests).toBe(1);
  });
});
