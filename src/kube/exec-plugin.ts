import { dirname, resolve } from 'node:path';
import * as v from 'valibot';
import { reasonOf } from '../base/errors.ts';
import { exec, type ExecResult } from '../base/exec.ts';
import { tryParseJson } from '../base/try-parse-json.ts';
import type { AccessInputs } from './access.ts';
import { type ClusterEntry, type ExecEntry, wrong } from './parse-kubeconfig.ts';
import type { Credential, TlsMaterial } from './session.ts';

const ExecCredential = v.looseObject({
  apiVersion: v.string(),
  kind: v.literal('ExecCredential'),
  status: v.looseObject({
    token: v.exactOptional(v.string()),
    clientCertificateData: v.exactOptional(v.string()),
    clientKeyData: v.exactOptional(v.string()),
    expirationTimestamp: v.exactOptional(v.string()),
  }),
});

/** Credentials that the plugin gives, good until `expiresAt`. */
export interface ExecIdentity {
  readonly credential: Credential;
  readonly tls: TlsMaterial;
  readonly expiresAt?: number;
}

/** Asks a credential plugin, which gets no terminal. @throws store/config-invalid naming file, field and reason */
export async function runExecPlugin(
  entry: ExecEntry,
  more: {
    readonly path: string;
    readonly field: string;
    readonly inputs: AccessInputs;
    readonly signal: AbortSignal;
    readonly cluster: ClusterEntry;
    readonly clusterTls: TlsMaterial;
  },
): Promise<ExecIdentity> {
  const { path, field, inputs, signal } = more;
  const fault = (what: string, cause?: unknown): Error =>
    wrong(path, `${field}.exec: plugin "${entry.command}" ${what}`, cause);
  // Like the orchestrator's own tools: a bare name is looked for in PATH, any other is seen from the file.
  const command = entry.command.includes('/') ? resolve(dirname(path), entry.command) : entry.command;
  let result: ExecResult;
  try {
    result = await exec(command, entry.args ?? [], { env: environmentFor(entry, inputs, more), signal });
  } catch (cause) {
    signal.throwIfAborted();
    throw fault(`cannot be run (${reasonOf(cause)})`, cause);
  }
  if (result.status !== 0) {
    const [line = ''] = result.stderr.trim().split('\n');
    throw fault(`ended with status ${String(result.status)}${line === '' ? '' : ` (${line.slice(0, 200)})`}`);
  }
  const read = v.safeParse(ExecCredential, tryParseJson(result.stdout));
  if (!read.success) throw fault('did not print an ExecCredential');
  if (read.output.apiVersion !== entry.apiVersion) {
    throw fault(`answered in "${read.output.apiVersion}" instead of "${entry.apiVersion}"`);
  }
  const { token, clientCertificateData: cert, clientKeyData: key, expirationTimestamp } = read.output.status;
  const from = `plugin "${entry.command}" of file "${path}"`;
  const tls = cert === undefined || key === undefined ? {} : { cert, key };
  const expiry = expirationTimestamp === undefined ? Number.NaN : Date.parse(expirationTimestamp);
  const until = Number.isNaN(expiry) ? {} : { expiresAt: expiry };
  if (token !== undefined && token !== '') return { credential: { kind: 'token', token, from }, tls, ...until };
  if (cert !== undefined && key !== undefined)
    return { credential: { kind: 'certificate', cert, from }, tls, ...until };
  throw fault('gave neither a token nor a certificate with its key');
}

function environmentFor(
  entry: ExecEntry,
  { env }: AccessInputs,
  { cluster, clusterTls }: { cluster: ClusterEntry; clusterTls: TlsMaterial },
): Record<string, string> {
  const ca = clusterTls.ca === undefined ? {} : { 'certificate-authority-data': base64(clusterTls.ca) };
  const info = {
    apiVersion: entry.apiVersion,
    kind: 'ExecCredential',
    spec: {
      interactive: false,
      ...(entry.provideClusterInfo === true ? { cluster: { server: cluster.server, ...ca } } : {}),
    },
  };
  const own = Object.entries(env).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return {
    ...Object.fromEntries(own),
    ...Object.fromEntries((entry.env ?? []).map(({ name, value }) => [name, value])),
    KUBERNETES_EXEC_INFO: JSON.stringify(info),
  };
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
