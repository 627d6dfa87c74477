// What a client of netplug-sidecar sends, which any process of the pod may be: damaged checks of a real Envoy, and damaged connections.
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { CheckResponse } from '../../proto/gen/authz.ts';
import { CHECK, checkHandler } from '../../src/apps/sidecar/check-service.ts';
import { RequestJudge } from '../../src/apps/sidecar/request-judge.ts';
import { GRPC, serveGrpc } from '../../src/base/http2/grpc-server.ts';
import { encodeFrame, FLAG, FRAME, PREFACE } from '../../src/base/http2/http2-frames.ts';
import { encodeHeaders } from '../../src/base/http2/hpack.ts';
import { framed } from '../../src/datastore/kv/grpc.ts';
import { FedSets } from '../../src/policy/feed/fed-sets.ts';
import { SidecarFeed } from '../../src/policy/feed/sidecar-feed.ts';
import { FORMAT_1 } from '../../src/policy/feed/wire-rule.ts';
import { globalPolicy } from '../support/policy-arbitraries.ts';
import { PolicyCluster } from '../support/policy-cluster.ts';
import { recordedChecks } from '../support/recorded-checks.ts';
import { fuzz, HANG_MS, SECONDS, SEED, untilClosed } from './driver.ts';
import { byteMutants } from './mutants.ts';

const CONNECTIONS_PER_SEED = 25;
/** Codes of an answer. */
const [ALLOWED, DENIED] = [0, 7];
const CHECKS = [...recordedChecks().values()];
const handle = checkHandler({ judge: judgeOf(), onJudged: () => undefined, onFailure: () => undefined });

/** Of a pod that serves GET below `/items`. */
function judgeOf(): RequestJudge {
  const cluster = new PolicyCluster();
  cluster.putPod({
    namespace: 'shop',
    name: 'web',
    addresses: ['172.31.0.2'],
    labels: { role: 'a' },
    interfaceName: 'npl1',
  });
  const http = { methods: ['GET'], paths: [{ prefix: '/items' }] };
  cluster.put(globalPolicy('items', { protocol: 'TCP', http }, { selector: "role == 'a'" }));
  const [pod = ''] = cluster.state.endpoints.keys();
  const judge = new RequestJudge();
  judge.apply(new SidecarFeed(cluster.state, new FedSets(cluster.state), { pod, known: FORMAT_1 }).next(), 'whole');
  return judge;
}

it(
  'a damaged check is judged, or fails as a call that could not be judged',
  () => {
    const count = fuzz(byteMutants(fc.constantFrom(...CHECKS)), 1 / 2, (bytes) => {
      const answer = handle(CHECK, bytes);
      const code = 'error' in answer ? answer.error : CheckResponse.decode(answer.message).status?.code;
      expect(code).toBeOneOf([ALLOWED, DENIED, GRPC.unavailable]);
    });
    expect(count).toBeGreaterThan(0);
  },
  HANG_MS,
);

/** A connection that asks about everything that was recorded. */
function connectionOf(checks: readonly Buffer[]): Buffer {
  const call = encodeHeaders([
    [':method', 'POST'],
    [':path', CHECK],
    ['content-type', 'application/grpc'],
  ]);
  const frames = checks.flatMap((check, index) => {
    const stream = 2 * index + 1;
    return [
      encodeFrame({ type: FRAME.headers, flags: FLAG.endHeaders, stream, payload: call }),
      encodeFrame({ type: FRAME.data, flags: FLAG.endStream, stream, payload: framed(check) }),
    ];
  });
  const settings = encodeFrame({ type: FRAME.settings, flags: 0, stream: 0, payload: Buffer.alloc(0) });
  return Buffer.concat([PREFACE, settings, ...frames]);
}

it(
  'a damaged connection ends alone, and the next one is served',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'netplug-fuzz-'));
    const path = join(folder, 'check');
    let judged = 0;
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      serveGrpc(socket, (method, message) => {
        judged += 1;
        return handle(method, message);
      });
      socket.on('end', () => socket.end());
    }).listen(path);
    await once(server, 'listening');
    const send = async (bytes: Buffer): Promise<void> => {
      const socket = connect(path);
      const closed = untilClosed(socket);
      socket.end(bytes);
      await closed;
    };
    const whole = connectionOf(CHECKS);
    const damaged = byteMutants(fc.constant(whole));
    let count = 0;
    const endMs = performance.now() + (SECONDS * 1000) / 2;
    for (let seed = Number(SEED ?? Date.now() % 2 ** 31); performance.now() < endMs; seed += 1) {
      await Promise.all(fc.sample(damaged, { numRuns: CONNECTIONS_PER_SEED, seed }).map(send));
      judged = 0;
      await send(whole);
      expect(judged, `seed ${String(seed)}`).toBe(CHECKS.length);
      count += CONNECTIONS_PER_SEED;
    }
    expect(count).toBeGreaterThan(0);
    server.close();
    await once(server, 'close');
    rmSync(folder, { recursive: true, force: true });
  },
  HANG_MS,
);
