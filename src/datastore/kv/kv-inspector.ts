import http from 'node:http';
import https from 'node:https';
import { text } from 'node:stream/consumers';
import { systemClock } from '../../base/clock.ts';
import type { KvConnection } from '../../config/connection.ts';
import type { DatastoreReport, Inspector } from '../inspector.ts';
import { readEtcdPages } from './etcd-facts.ts';
import { findEndpoints } from './find-endpoints.ts';
import { readTlsFiles, type EtcdTls } from './tls-files.ts';
import { etcdError, judge } from './translate-error.ts';

/** Inspects etcd through the status pages on its client port. */
export function openKvInspector(connection: KvConnection): Inspector {
  return {
    inspect: async (signal) => inspect(connection, signal),
    [Symbol.asyncDispose]: async () => Promise.resolve(),
  };
}

async function inspect(connection: KvConnection, signal: AbortSignal): Promise<DatastoreReport> {
  const tls = await readTlsFiles(connection);
  const origins = await findEndpoints(connection, { wasEncrypted: false, signal });
  let failure: unknown;
  for (const origin of origins) {
    try {
      return await inspectMember({ origin, tls }, signal);
    } catch (cause) {
      signal.throwIfAborted();
      failure = cause;
    }
  }
  throw etcdError(judge(failure), `at ${origins.join(', ')}`, failure);
}

interface Member {
  readonly origin: string;
  readonly tls: EtcdTls;
}

async function inspectMember(member: Member, signal: AbortSignal): Promise<DatastoreReport> {
  const sentMs = systemClock.now();
  const version = await fetchPage(member, '/version', signal);
  const receivedMs = systemClock.now();
  const health = await fetchPage(member, '/health', signal);
  const metrics = await fetchPage(member, '/metrics', signal);
  return readEtcdPages({
    version: version.body,
    health: health.body,
    metrics: metrics.body,
    exchange: { sentMs, receivedMs, date: version.date },
  });
}

async function fetchPage(
  { origin, tls }: Member,
  path: string,
  signal: AbortSignal,
): Promise<{ readonly body: string; readonly date: string | undefined }> {
  const url = `${origin}${path}`;
  const answer = await new Promise<http.IncomingMessage>((resolve, reject) => {
    const sent = url.startsWith('https:') ? https.get(url, { ...tls, signal }) : http.get(url, { signal });
    sent.on('response', resolve);
    sent.on('error', reject);
  });
  return { body: await text(answer), date: answer.headers.date };
}
