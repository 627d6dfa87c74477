// The administrator's way from the test to an API server that only a test node reaches.
import { request } from 'node:http';
import { join } from 'node:path';
import { program } from './components.ts';
import { type Json, type TestNode, until } from './node.ts';

export interface ApiSocket extends AsyncDisposable {
  readonly path: string;
  /** Asks the API server. The status is 502 when it does not serve, and 0 when it did not answer in time. */
  ask(method: string, path: string, body?: object): Promise<{ readonly status: number; readonly json: Json }>;
}

const ANSWER_MS = 10_000;

/** Starts `kubectl proxy` on the node. */
export async function openApiSocket(node: Pick<TestNode, 'start' | 'dir'>, kubeconfig: string): Promise<ApiSocket> {
  const socketPath = join(node.dir, 'api.sock');
  const proxy = await node.start([
    program('kubectl'),
    `--kubeconfig=${kubeconfig}`,
    'proxy',
    `--unix-socket=${socketPath}`,
    '--reject-methods=^$',
  ]);
  await until(
    () => proxy.log().includes('Starting to serve'),
    () => `kubectl serves:\n${proxy.log()}`,
  );
  const ask: ApiSocket['ask'] = async (method, path, body) =>
    new Promise((resolve) => {
      const headers = { host: 'localhost', 'content-type': 'application/json' };
      const sent = request({ socketPath, method, path, headers, timeout: ANSWER_MS }, (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (part: string) => (text += part));
        answer.on('end', () => {
          const isJson = answer.headers['content-type']?.startsWith('application/json') === true;
          resolve({ status: answer.statusCode ?? 0, json: isJson ? JSON.parse(text) : text });
        });
        answer.on('error', () => {
          resolve({ status: 0, json: text });
        });
      });
      sent.on('timeout', () => sent.destroy());
      sent.on('error', () => {
        resolve({ status: 0, json: undefined });
      });
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  return { path: socketPath, ask, [Symbol.asyncDispose]: async () => proxy.stop('KILL') };
}
