import { basename } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { reasonOf } from '../base/errors.ts';
import { forEachLimit } from '../base/for-each-limit.ts';
import { at, type Problem } from '../base/problem.ts';
import { PASSWORD_FOLDER } from '../model/spec-types.ts';
import { formatAddress } from '../net/address.ts';
import { readPasswordFile } from './read-password-file.ts';
import type { PasswordReference, PlannedSession, ReadySession } from './session.ts';

/** Reads the part `key` of a Secret; undefined when there is none. */
export type ReadSecret = (name: string, key: string, signal: AbortSignal) => Promise<string | undefined>;

export interface SessionsWithPasswords {
  readonly sessions: readonly ReadySession[];
  /** Reasons why sessions are left out, or keep an old password. A session that needs one is never set up without it. */
  readonly problems: readonly Problem[];
}

interface Finding {
  /** The password read last; undefined when there is none. */
  readonly password: string | undefined;
  /** Reason why the last attempt to read it failed. */
  readonly reason: string | undefined;
}

const AT_ONCE = 8;

/** The passwords of sessions. A password stays in use while it cannot be read, until it is known not to exist. */
export class Passwords {
  readonly #readSecret: ReadSecret;
  readonly #folder: string;
  #known: ReadonlyMap<string, Finding> = new Map();

  /** `folder` has the files that resources name by their paths in `PASSWORD_FOLDER`. */
  constructor(readSecret: ReadSecret, folder: string = PASSWORD_FOLDER) {
    this.#readSecret = readSecret;
    this.#folder = folder;
  }

  /** Reads each password once, without a trailing line break. Reports whether anything changed. */
  async read(planned: readonly PlannedSession[], signal: AbortSignal): Promise<boolean> {
    const places = new Map<string, PasswordReference>();
    for (const { passwordReference } of planned)
      if (passwordReference !== undefined) places.set(describePlace(passwordReference), passwordReference);
    const before = this.#known;
    const known = new Map<string, Finding>();
    await forEachLimit([...places], AT_ONCE, async ([place, reference]) => {
      known.set(place, await this.#find(reference, before.get(place), signal));
    });
    this.#known = known;
    return !isDeepStrictEqual(known, before);
  }

  /** Adds the passwords to the sessions; undefined until each password has been read once. */
  addTo(planned: readonly PlannedSession[]): SessionsWithPasswords | undefined {
    const sessions: ReadySession[] = [];
    const problems: Problem[] = [];
    for (const { passwordReference, ...session } of planned) {
      if (passwordReference === undefined) {
        sessions.push({ ...session, password: undefined });
        continue;
      }
      const place = describePlace(passwordReference);
      const found = this.#known.get(place);
      if (found === undefined) return undefined;
      const { password, reason } = found;
      if (password !== undefined) sessions.push({ ...session, password });
      if (reason !== undefined)
        problems.push(problemOf(session, { isUp: password !== undefined, reason: `${place} ${reason}` }));
    }
    return { sessions, problems };
  }

  async #find(
    { file, secretKeyRef }: PasswordReference,
    before: Finding | undefined,
    signal: AbortSignal,
  ): Promise<Finding> {
    const none = { password: undefined, reason: 'does not exist' };
    try {
      const text =
        file === undefined
          ? await this.#readSecret(secretKeyRef?.name ?? '', secretKeyRef?.key ?? '', signal)
          : await readPasswordFile(this.#folder, basename(file));
      const password = text?.replace(/\r?\n$/, '');
      if (password === '') return { password: undefined, reason: 'is empty' };
      return password === undefined ? none : { password, reason: undefined };
    } catch (cause) {
      signal.throwIfAborted();
      return { password: before?.password, reason: `cannot be read (${reasonOf(cause)})` };
    }
  }
}

function describePlace({ file, secretKeyRef }: PasswordReference): string {
  if (file !== undefined) return `file "${file}"`;
  return `key "${secretKeyRef?.key ?? ''}" of Secret "${secretKeyRef?.name ?? ''}"`;
}

function problemOf(
  { name, peerAddress }: Pick<ReadySession, 'name' | 'peerAddress'>,
  { isUp, reason }: { readonly isUp: boolean; readonly reason: string },
): Problem {
  const peer = formatAddress(peerAddress);
  return {
    path: at('session', name, 'password'),
    message: isUp
      ? `the session with ${peer} has the password read before: ${reason}`
      : `no session with ${peer}: ${reason}`,
    hint: isUp ? 'Make it readable: the session is lost when the agent restarts' : 'Write the password to this place',
    code: 'bgp/peer-unusable',
  };
}
