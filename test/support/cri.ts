// A client of the Container Runtime Interface, from its description and without generated code.
import { execFile } from 'node:child_process';
import { connect } from 'node:net';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { createFileRegistry, fromBinary } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { createClient } from '@connectrpc/connect';
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node';
import type { Json } from './node.ts';

const CALL_MS = 60_000;

/** Calls by method name in lower camel case, fields likewise: `call('stopPodSandbox', { podSandboxId })`. */
export interface Cri extends Disposable {
  call(method: string, request?: object): Promise<Json>;
}

/** Connects to the runtime's unix socket. */
export async function openCri(socket: string): Promise<Cri> {
  const root = resolve(import.meta.dirname, '../..');
  const buf = resolve(root, 'node_modules/.bin/buf');
  const folder = resolve(import.meta.dirname, 'cri');
  const built = await promisify(execFile)(buf, ['build', folder, '-o', '-#format=binpb'], { encoding: 'buffer' });
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, built.stdout));
  const services = ['runtime.v1.RuntimeService', 'runtime.v1.ImageService'].map((name) => {
    const service = registry.getService(name);
    if (service === undefined) throw new Error(`the description of the CRI holds no ${name}`);
    return service;
  });

  const baseUrl = 'http://localhost';
  const sessionManager = new Http2SessionManager(baseUrl, {}, { createConnection: () => connect(socket) });
  const transport = createGrpcTransport({ baseUrl, sessionManager });
  // No method is in both services.
  const clients: Json[] = services.map((service) => createClient(service, transport));
  return {
    call: async (method, request = {}) =>
      clients.find((client) => method in client)[method](request, { timeoutMs: CALL_MS }),
    [Symbol.dispose]: () => {
      sessionManager.abort();
    },
  };
}
