import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { bgpNodeOf, bgpPeerOf } from '../../test/support/bgp.ts';
import { planSessions } from './plan-sessions.ts';
import { Passwords, type SessionsWithPasswords } from './passwords.ts';
import type { PasswordReference, PlannedSession } from './session.ts';

const signal = new AbortController().signal;
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'npl-password-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function sessionWith(password: PasswordReference | undefined): readonly PlannedSession[] {
  const peer = bgpPeerOf('router', {
    peerIP: '192.0.2.1',
    asNumber: 65_001,
    ...(password !== undefined && { password }),
  });
  return planSessions({ nodeName: 'node-2', nodes: [bgpNodeOf(2)], configurations: [], peers: [peer] }).sessions;
}

async function readSecret(name: string, key: string): Promise<string | undefined> {
  if (name === 'forbidden') throw new Error('no right to read it');
  if (key === 'empty') return Promise.resolve('\n');
  return Promise.resolve(name === 'bgp' && key === 'router' ? 'from a secret' : undefined);
}

async function read(password: PasswordReference | undefined): Promise<SessionsWithPasswords | undefined> {
  const planned = sessionWith(password);
  const passwords = new Passwords(readSecret, folder);
  await passwords.read(planned, signal);
  return passwords.addTo(planned);
}

it('passwords are read from files and Secrets, without a trailing line break', async () => {
  for (const text of ['two words', 'two words\n', 'two words\r\n']) {
    writeFileSync(join(folder, 'password'), text);
    expect(await read({ file: '/etc/netplug/bgp/password' })).toMatchObject({
      sessions: [{ password: 'two words' }],
      problems: [],
    });
  }
  const secret = { secretKeyRef: { name: 'bgp', key: 'router' } };
  expect(await read(secret)).toMatchObject({ sessions: [{ password: 'from a secret' }], problems: [] });
  expect(await read(undefined)).toMatchObject({ sessions: [{ password: undefined }], problems: [] });
});

it.each([
  [{ file: '/etc/netplug/bgp/none' }, 'file "/etc/netplug/bgp/none" does not exist'],
  [{ secretKeyRef: { name: 'bgp', key: 'none' } }, 'key "none" of Secret "bgp" does not exist'],
  [{ secretKeyRef: { name: 'bgp', key: 'empty' } }, 'key "empty" of Secret "bgp" is empty'],
  [{ secretKeyRef: { name: 'forbidden', key: 'a' } }, 'key "a" of Secret "forbidden" cannot be read (no right'],
])('a session whose password is missing (%j) is left out with a problem', async (password, reason) => {
  expect(await read(password)).toMatchObject({
    sessions: [],
    problems: [{ message: expect.stringContaining(`no session with 192.0.2.1: ${reason}`) }],
  });
});

it('a password stays in use while it cannot be read, and is dropped when it does not exist', async () => {
  const planned = sessionWith({ secretKeyRef: { name: 'bgp', key: 'router' } });
  let answer: string | undefined | Error = 'first';
  const passwords = new Passwords(async () =>
    answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer),
  );
  const seen: unknown[] = [];
  const gone = new Error('the API is unreachable');
  for (const next of ['first', gone, gone, 'second', gone, undefined, gone, 'third', gone, '']) {
    answer = next;
    const isNew = await passwords.read(planned, signal);
    const { sessions, problems } = passwords.addTo(planned) ?? {};
    seen.push([isNew, sessions?.map(({ password }) => password), problems?.map(({ message }) => message)]);
  }
  const place = 'key "router" of Secret "bgp"';
  const kept = `the session with 192.0.2.1 has the password read before: ${place} cannot be read (the API is unreachable)`;
  expect(seen).toEqual([
    [true, ['first'], []],
    [true, ['first'], [kept]],
    [false, ['first'], [kept]],
    [true, ['second'], []],
    [true, ['second'], [kept]],
    [true, [], [`no session with 192.0.2.1: ${place} does not exist`]],
    [true, [], [`no session with 192.0.2.1: ${place} cannot be read (the API is unreachable)`]],
    [true, ['third'], []],
    [true, ['third'], [kept]],
    [true, [], [`no session with 192.0.2.1: ${place} is empty`]],
  ]);
});

it('passwords are read concurrently, and sessions are unknown until all have been read', async () => {
  const references = ['a', 'b', 'c'].map((key) => ({ secretKeyRef: { name: 'bgp', key } }));
  const planned = references.flatMap(sessionWith);
  const together = Promise.withResolvers<string>();
  let asked = 0;
  const passwords = new Passwords(async () => {
    asked += 1;
    if (asked === references.length) together.resolve('word');
    return together.promise;
  });
  expect(passwords.addTo(planned)).toBeUndefined();
  await passwords.read(planned, signal);
  expect(passwords.addTo(planned)?.sessions.map(({ password }) => password)).toEqual(['word', 'word', 'word']);
});

it('a file that is no small regular file of the folder is refused at once, and no thread waits for it', async () => {
  execFileSync(
    'mkfifo',
    ['fifo', 'fifo2', 'fifo3', 'fifo4', 'fifo5'].map((name) => join(folder, name)),
  );
  mkdirSync(join(folder, 'folder'));
  writeFileSync(join(folder, 'large'), 'x'.repeat(4097));
  writeFileSync(join(folder, 'largest'), 'x'.repeat(4096));
  symlinkSync('/dev/zero', join(folder, 'link'));
  symlinkSync(join(folder, 'largest'), join(folder, 'inner-link'));
  const irregular = ['fifo', 'fifo2', 'fifo3', 'fifo4', 'fifo5', 'folder', 'link', 'inner-link'];
  for (const [name, why] of [...irregular.map((each) => [each, 'no regular file']), ['large', 'larger than 4096']])
    expect(await read({ file: `/etc/netplug/bgp/${name ?? ''}` })).toMatchObject({
      sessions: [],
      problems: [{ message: expect.stringContaining(why ?? '') }],
    });
  expect(await read({ file: '/etc/netplug/bgp/largest' })).toMatchObject({ problems: [] });
});

it('a folder that is a link to another one is not followed', async () => {
  const link = `${folder}-link`;
  symlinkSync(folder, link);
  const passwords = new Passwords(readSecret, link);
  const planned = sessionWith({ file: '/etc/netplug/bgp/password' });
  await passwords.read(planned, signal);
  expect(passwords.addTo(planned)).toMatchObject({ sessions: [], problems: [{ code: 'bgp/peer-unusable' }] });
  rmSync(link);
});
