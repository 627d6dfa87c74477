// Lends API servers to files of tests, so that a run starts few of them. A server is started when none is free, and emptied
// when it comes back: its etcd gets the keys that it had when it was first lent, each with its value.
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { apiRequests, type ApiRequests } from './api-requests.ts';
import { type OwnApiServer, runApiServer } from './api-server-process.ts';
import { type Contents, type LenderAnswer, type LenderRequest, LENDER, LENT_USERS } from './borrowed-api-server.ts';
import { emptyApiServer } from './empty-api-server.ts';
import { type EtcdContents, recordContents } from './etcd-contents.ts';
import { removeAtEnd } from './janitor.ts';
import { applyNetplug } from './netplug-manifests.ts';
import { listServedKinds, type ServedKind } from './served-kinds.ts';

/** What API servers write for each other: that they live, every few seconds, and what of etcd they have compacted. */
const OF_THE_SERVER =
  /^(compact_rev_key$|\/registry\/(leases\/kube-system\/apiserver-|peerserverleases\/|masterleases\/))/;

interface LentServer {
  readonly process: OwnApiServer;
  readonly requests: ApiRequests;
  readonly contents: EtcdContents;
  readonly served: readonly ServedKind[];
  readonly files: ReadonlySet<string>;
  state: 'runs' | 'stopped' | 'paused';
  lastBorrower: string;
}

const free: Record<Contents, LentServer[]> = { bare: [], netplug: [] };
const all = new Set<LentServer>();
/** Servers that are being emptied, which takes less time than to start one. A loan that waits for one takes its promise. */
const returning: Record<Contents, Promise<void>[]> = { bare: [], netplug: [] };

/** Listens on a socket, of which every connection is one loan, unless one of this run does. Returns what ends all servers. */
export default async function setup(): Promise<() => Promise<void>> {
  if (process.env[LENDER] !== undefined) return async () => Promise.resolve();
  const folder = await mkdtemp(join(tmpdir(), 'netplug-lender-'));
  removeAtEnd('folder', folder);
  const path = join(folder, 'socket');
  const lender = createServer((socket) => {
    void serve(socket);
  }).listen(path);
  process.env[LENDER] = path;
  return async () => {
    delete process.env[LENDER];
    lender.close();
    await Promise.all(Object.values(returning).flat());
    for (const { process: server } of all) await server[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  };
}

async function serve(socket: Socket): Promise<void> {
  // The borrower may end at any time.
  socket.on('error', () => undefined);
  let lent: { server: LentServer; contents: Contents } | undefined;
  for await (const line of createInterface(socket)) {
    const request = JSON.parse(line) as LenderRequest;
    let answer: LenderAnswer;
    try {
      if (request.what === 'borrow') {
        const contents = request.contents ?? 'bare';
        lent = { server: await lend(contents, request.borrower ?? ''), contents };
        answer = { access: lent.server.process.access };
      } else {
        await control(lent!.server, request.what);
        answer = {};
      }
    } catch (cause) {
      answer = { error: String((cause as Error).stack) };
    }
    if (socket.writable) socket.write(`${JSON.stringify(answer)}\n`);
  }
  socket.destroy();
  if (lent === undefined) return;
  const { server, contents } = lent;
  const returned = takeBack(server, contents).finally(() => {
    returning[contents] = returning[contents].filter((other) => other !== returned);
  });
  returning[contents].push(returned);
}

/** Lends the next free server that is as it was first, and ends those to which a process of their last borrower still wrote. */
async function lend(contents: Contents, borrower: string): Promise<LentServer> {
  for (;;) {
    if (free[contents].length === 0) await returning[contents].shift();
    const server = free[contents].pop() ?? (await start(contents));
    const left = await server.contents.changes();
    if (left.length === 0) {
      server.lastBorrower = borrower;
      return server;
    }
    tell(`${server.lastBorrower} had returned its API server, and these keys changed: ${left.join(', ')}`);
    await end(server);
  }
}

function tell(line: string): void {
  process.stderr.write(`API servers of this run: ${line}\n`);
}

async function control(server: LentServer, what: 'stop' | 'start' | 'pause' | 'resume'): Promise<void> {
  await server.process[what]();
  server.state = ({ stop: 'stopped', start: 'runs', pause: 'paused', resume: 'runs' } as const)[what];
}

async function takeBack(server: LentServer, contents: Contents): Promise<void> {
  try {
    if (server.state === 'paused') await control(server, 'resume');
    if (server.state === 'stopped') await control(server, 'start');
    const { dir } = server.process.access;
    for (const name of await readdir(dir)) {
      if (!server.files.has(name)) await rm(join(dir, name), { recursive: true });
    }
    await emptyApiServer(server.requests, server.contents, server.served);
    free[contents].push(server);
  } catch (cause) {
    tell(
      `one could not be emptied after ${server.lastBorrower}: ${String(cause)}\n${server.process.log().slice(-4000)}`,
    );
    await end(server);
  }
}

async function end(server: LentServer): Promise<void> {
  all.delete(server);
  await server.process[Symbol.asyncDispose]();
}

async function start(contents: Contents): Promise<LentServer> {
  const server = await runApiServer({ users: LENT_USERS });
  try {
    const { url, caFile, adminToken: token, etcdUrl, dir } = server.access;
    const requests = apiRequests({ url, caFile, token });
    if (contents === 'netplug') await applyNetplug(requests);
    const lent: LentServer = {
      process: server,
      requests,
      contents: await recordContents(etcdUrl, OF_THE_SERVER),
      served: await listServedKinds(requests),
      files: new Set(await readdir(dir)),
      state: 'runs',
      lastBorrower: '',
    };
    all.add(lent);
    return lent;
  } catch (cause) {
    await server[Symbol.asyncDispose]();
    throw cause;
  }
}
