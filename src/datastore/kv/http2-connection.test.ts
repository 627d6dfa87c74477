import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const MODULE = new URL('./http2-connection.ts', import.meta.url).href;

it('keeps the process running while it tests a connection that has been quiet', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const program = `
    import { Http2Connection } from '${MODULE}';
    const connection = new Http2Connection('http://127.0.0.1:${String(port)}', { tls: {}, connectMs: 3000 });
    await connection.connect();
    connection.suspect();
    await connection.connect();
    console.log('tested');`;
  try {
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
    expect(stdout).toBe('tested\n');
  } finally {
    server.close();
  }
});
