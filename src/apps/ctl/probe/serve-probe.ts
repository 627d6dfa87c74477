import { createServer } from 'node:http';
import type { Context, Status } from '../ports.ts';

export const PROBE_PORT = 8080;

/** Answers every HTTP request with the name of the host, until the command is stopped. */
export async function serveProbe(
  { io, ports, stopped }: Pick<Context, 'io' | 'stopped'> & { readonly ports: Pick<Context['ports'], 'hostname'> },
  { port }: { readonly port: number },
): Promise<Status> {
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/plain', connection: 'close' }).end(`${ports.hostname}\n`);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '::', () => {
      io.stdout(`serving on port ${String(port)}\n`);
    });
    stopped.addEventListener('abort', () => {
      server.closeAllConnections();
      server.close(() => {
        resolve();
      });
    });
  });
  return 0;
}
