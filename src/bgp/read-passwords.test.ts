import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { bgpNodeOf, bgpPeerOf } from '../../test/support/bgp.ts';
import { planSessions } from './plan-sessions.ts';
import { type PasswordsRead, readPasswords } from './read-passwords.ts';
import type { PasswordReference } from './session.ts';

const signal = new AbortController().signal;
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'npl-password-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

async function read(password: PasswordReference | undefined): Promise<PasswordsRead> {
  const peer = bgpPeerOf('router', {
    peerIP: '192.0.2.1',
    asNumber: 65_001,
    ...(password !== undefined && { password }),
  });
  const { sessions } = planSessions({ nodeName: 'node-2', nodes: [bgpNodeOf(2)], configurations: [], peers: [peer] });
  const readSecret = async (name: string, key: string): Promise<string | undefined> => {
    if (name === 'forbidden') throw new Error('no right to read it');
    if (key === 'empty') return Promise.resolve('\n');
    return Promise.resolve(name === 'bgp' && key === 'router' ? 'from a secret' : undefined);
  };
  return readPasswords(sessions, readSecret, signal);
}

it('passwords come from files and secrets, without the line break at their end', async () => {
  const file = join(folder, 'password');
  for (const text of ['two words', 'two words\n', 'two words\r\n']) {
    writeFileSync(file, text);
    expect(await read({ file })).toMatchObject({ sessions: [{ password: 'two words' }], problems: [] });
  }
  const secret = { secretKeyRef: { name: 'bgp', key: 'router' } };
  expect(await read(secret)).toMatchObject({ sessions: [{ password: 'from a secret' }], problems: [] });
  expect(await read(undefined)).toMatchObject({ sessions: [{ password: undefined }], problems: [] });
});

it.each([
  [{ file: '/none/password' }, 'file "/none/password" cannot be read (ENOENT'],
  [{ secretKeyRef: { name: 'bgp', key: 'none' } }, 'key "none" of Secret "bgp" does not exist'],
  [{ secretKeyRef: { name: 'bgp', key: 'empty' } }, 'key "empty" of Secret "bgp" is empty'],
  [{ secretKeyRef: { name: 'forbidden', key: 'a' } }, 'key "a" of Secret "forbidden" cannot be read (no right'],
])('a session whose password is missing (%j) is left out, and it is said why', async (password, reason) => {
  const { sessions, problems } = await read(password);
  expect(sessions).toEqual([]);
  expect(problems).toMatchObject([{ message: expect.stringContaining(`no session with 192.0.2.1: ${reason}`) }]);
});
