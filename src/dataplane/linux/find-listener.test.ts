import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, it } from 'vitest';
import { findListener } from './find-listener.ts';

it.each(['127.0.0.1', '::1'])(
  'finds the program that listens on a port of %s, and none once it has ended',
  async (host) => {
    const server = createServer().listen(0, host);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    expect(await findListener(port, undefined)).toMatch(new RegExp(`^.+ \\(pid ${String(process.pid)}\\)$`));
    expect(await findListener(port, process.pid)).toBeUndefined();
    server.close();
    await once(server, 'close');
    expect(await findListener(port, undefined)).toBeUndefined();
  },
);
