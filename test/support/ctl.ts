import { virtualClock } from '../../src/base/clock.ts';
import { seededRandom } from '../../src/base/random.ts';
import { main } from '../../src/cli/main.ts';
import type { CtlPorts } from '../../src/cli/ports.ts';

const NOTHING_SPECIAL = { server: 'memory', alarms: [], missingKinds: [], differingKinds: [], missingRights: [] };

/** What a call of the tool gave. */
export interface Ran {
  readonly status: number;
  readonly out: string;
  readonly err: string;
}

export interface CtlWorld extends Partial<CtlPorts> {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
}

/** Calls the management tool in this process, in a world that has only what the test gives it. */
export async function callCtl(argv: readonly string[], { env = {}, stdin = '', ...given }: CtlWorld): Promise<Ran> {
  let [out, err] = ['', ''];
  const missing = (): never => {
    throw new Error('this command needs neither datastore nor kernel');
  };
  const ports: CtlPorts = {
    clock: virtualClock(Date.parse('2026-01-02T00:00:00Z')),
    random: seededRandom(1),
    hostname: 'node-a',
    readRegisteredName: () => undefined,
    machine: { executable: undefined, stateDir: '', runDir: '/run/netplug', logDir: '', serviceAccountDir: '' },
    plugin: {
      openOrch: missing,
      readPluginList: () => undefined,
      readOfferedMtu: () => undefined,
      confDir: '/nowhere',
    },
    interrupted: new AbortController().signal,
    askAgent: async () => Promise.reject(new Error('nobody listens')),
    openStore: missing,
    openInspector: () => ({
      inspect: async () => Promise.resolve(NOTHING_SPECIAL),
      [Symbol.asyncDispose]: async () => Promise.resolve(),
    }),
    host: { uid: 1000, procDir: '/proc' },
    openKernel: missing,
    openHostNetwork: missing,
    openPacketFilter: missing,
    stopBird: missing,
    ...given,
  };
  const io = {
    stdin: async () => Promise.resolve(stdin),
    stdout: (text: string) => (out += text),
    stderr: (text: string) => (err += text),
    isTty: false,
    isErrTty: false,
    screen: { columns: 100, mayColour: false },
  };
  const status = await main(ports, { argv, env, io });
  return { status, out, err };
}
