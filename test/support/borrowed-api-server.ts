// The borrower's side of the API servers that a run of the tests lends: test/support/api-server-lender.ts.
import { once } from 'node:events';
import { createConnection } from 'node:net';
import { createInterface } from 'node:readline';
import type { ApiServerAccess, ApiServerOptions, ApiServerProcess, KubeUser } from './api-server-process.ts';

/** `netplug` are the definitions and roles that netplug ships; `bare` is what an API server makes by itself. */
export type Contents = 'bare' | 'netplug';

/** Variable with the path of the lender's socket. */
export const LENDER = 'NETPLUG_TEST_LENDER';

/** Every lent server knows them; they may do nothing but what roles bound to them allow. */
export const LENT_USERS: readonly KubeUser[] = [
  { name: 'system:kube-controller-manager' },
  { name: 'system:kube-scheduler' },
  { name: 'limited' },
];

export interface LenderRequest {
  readonly what: 'borrow' | 'stop' | 'start' | 'pause' | 'resume';
  readonly contents?: Contents;
  /** Of a borrow: the file of tests. */
  readonly borrower?: string;
}

export type LenderAnswer = { readonly access?: ApiServerAccess } | { readonly error: string };

/** Reports whether a server with the options is lent. */
export function mayBorrow({ users = [], ...others }: ApiServerOptions): boolean {
  const isUsual = Object.values(others).every((value) => value === undefined);
  const areKnown = users.every(
    ({ name, groups }) => groups === undefined && LENT_USERS.some((user) => user.name === name),
  );
  return process.env[LENDER] !== undefined && isUsual && areKnown;
}

/** Borrows a server with the contents and nothing else in it. It goes back when it is disposed, or this process ends. */
export async function borrowApiServer(contents: Contents): Promise<ApiServerProcess> {
  const socket = createConnection(process.env[LENDER]!);
  await once(socket, 'connect');
  const answers = createInterface(socket)[Symbol.asyncIterator]();
  const ask = async (request: LenderRequest): Promise<LenderAnswer & object> => {
    socket.write(`${JSON.stringify(request)}\n`);
    const { value, done } = await answers.next();
    if (done === true) throw new Error('the lender of API servers has ended');
    const answer = JSON.parse(value) as LenderAnswer;
    if ('error' in answer) throw new Error(answer.error);
    return answer;
  };
  // Only what runs in vitest borrows.
  const { expect } = await import('vitest');
  const borrower = expect.getState().testPath ?? '';
  const { access } = (await ask({ what: 'borrow', contents, borrower })) as { access: ApiServerAccess };
  return {
    access,
    stop: async () => void (await ask({ what: 'stop' })),
    start: async (release) => {
      if (release !== undefined) throw new Error('a lent API server has the release of the run of the tests');
      await ask({ what: 'start' });
    },
    pause: async () => void (await ask({ what: 'pause' })),
    resume: async () => void (await ask({ what: 'resume' })),
    [Symbol.asyncDispose]: async () => {
      socket.end();
      await once(socket, 'close');
    },
  };
}
