import { readFile } from 'node:fs/promises';
import { reasonOf } from '../base/errors.ts';
import { at, type Problem } from '../base/problem.ts';
import { formatAddress } from '../net/address.ts';
import type { PasswordReference, PlannedSession, ReadySession } from './session.ts';

/** Reads the part `key` of a Secret; undefined when there is none. */
export type ReadSecret = (name: string, key: string, signal: AbortSignal) => Promise<string | undefined>;

export interface PasswordsRead {
  readonly sessions: readonly ReadySession[];
  /** Why sessions are left out: one that needs a password is never set up without. */
  readonly problems: readonly Problem[];
}

/** Reads the passwords that sessions refer to, each once. One line break at the end of a password is not part of it. */
export async function readPasswords(
  planned: readonly PlannedSession[],
  readSecret: ReadSecret,
  signal: AbortSignal,
): Promise<PasswordsRead> {
  const read = new Map<string, string | { readonly reason: string }>();
  const sessions: ReadySession[] = [];
  const problems: Problem[] = [];
  for (const { passwordReference, ...session } of planned) {
    if (passwordReference === undefined) {
      sessions.push({ ...session, password: undefined });
      continue;
    }
    const place = describePlace(passwordReference);
    const found = read.get(place) ?? (await readPassword(passwordReference, readSecret, signal));
    read.set(place, found);
    if (typeof found === 'string') sessions.push({ ...session, password: found });
    else problems.push(problemOf(session, `${place} ${found.reason}`));
  }
  return { sessions, problems };
}

async function readPassword(
  { file, secretKeyRef }: PasswordReference,
  readSecret: ReadSecret,
  signal: AbortSignal,
): Promise<string | { readonly reason: string }> {
  try {
    const text =
      file === undefined
        ? await readSecret(secretKeyRef?.name ?? '', secretKeyRef?.key ?? '', signal)
        : await readFile(file, { encoding: 'utf8', signal });
    const password = text?.replace(/\r?\n$/, '');
    if (password === '') return { reason: 'is empty' };
    return password ?? { reason: 'does not exist' };
  } catch (cause) {
    signal.throwIfAborted();
    return { reason: `cannot be read (${reasonOf(cause)})` };
  }
}

function describePlace({ file, secretKeyRef }: PasswordReference): string {
  if (file !== undefined) return `file "${file}"`;
  return `key "${secretKeyRef?.key ?? ''}" of Secret "${secretKeyRef?.name ?? ''}"`;
}

function problemOf({ name, peerAddress }: Pick<ReadySession, 'name' | 'peerAddress'>, reason: string): Problem {
  return {
    path: at('session', name, 'password'),
    message: `no session with ${formatAddress(peerAddress)}: ${reason}`,
    hint: 'Put the password there',
    code: 'bgp/peer-unusable',
  };
}
