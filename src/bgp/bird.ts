import { mkdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFileAtomically } from '../base/atomic-file.ts';
import { type Clock, timeLimit } from '../base/clock.ts';
import { errnoOf, NetplugError } from '../base/errors.ts';
import { exec } from '../base/exec.ts';
import { askBird, birdEnds, birdFailed, type BirdReply } from './control-socket.ts';
import { readSessions, type SessionStatus } from './read-status.ts';

export interface BirdPlaces {
  /** The folder of this BIRD: configuration, socket, process id and log. */
  readonly folder: string;
  /** The program and its first arguments. */
  readonly program: readonly [string, ...string[]];
}

export type Applied = 'unchanged' | 'reloaded' | 'started';

const CONFIG_MODE = 0o600;
const ANSWER_MS = 10_000;
const REFUSED = 8000;
/** Pattern of the names of BGP protocols. */
const SESSIONS = '"peer_*"';

/**
 * The one BIRD process of a node. It is a daemon that outlives the agent that started it, and is reached by its control
 * socket. The file `bird.conf` is what BIRD has loaded. It contains passwords, so only root may read it.
 */
export class Bird {
  readonly #clock: Clock;
  readonly #program: readonly [string, ...string[]];
  readonly #folder: string;
  readonly #socket: string;
  readonly #config: string;
  readonly #pidFile: string;

  constructor({ places, clock }: { readonly places: BirdPlaces; readonly clock: Clock }) {
    this.#clock = clock;
    this.#program = places.program;
    this.#folder = places.folder;
    this.#socket = join(places.folder, 'bird.ctl');
    this.#config = join(places.folder, 'bird.conf');
    this.#pidFile = join(places.folder, 'bird.pid');
  }

  /**
   * Starts or reloads BIRD with the configuration; does nothing when BIRD has loaded it already. Sessions that do not
   * change stay up. After a kill BIRD starts in graceful restart: peers and kernel keep its routes.
   * @throws bgp/bird-missing, bgp/bird-failed; BIRD keeps the previous configuration when it refuses this one
   */
  async apply(text: string, signal: AbortSignal): Promise<Applied> {
    const isRunning = (await this.#ask('show status', signal)) !== undefined;
    if (isRunning && (await readIfThere(this.#config)) === text) return 'unchanged';
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const candidate = `${this.#config}.next`;
    await writeFileAtomically(candidate, { text, mode: CONFIG_MODE });
    const reply = isRunning ? await this.#ask(`configure "${candidate}"`, signal) : undefined;
    if (reply === undefined) {
      await rename(candidate, this.#config);
      await this.#start(signal);
      return 'started';
    }
    refuseRefusal(reply);
    // Last, so that a crash before it makes the next call load the configuration again.
    await rename(candidate, this.#config);
    return 'reloaded';
  }

  /** Returns the sessions ordered by name; undefined while BIRD does not run. */
  async status(signal: AbortSignal): Promise<readonly SessionStatus[] | undefined> {
    const reply = await this.#ask('show protocols all', signal);
    return reply === undefined ? undefined : readSessions(reply);
  }

  /** Resolves when the BIRD process has exited. */
  async ended(signal: AbortSignal): Promise<void> {
    await birdEnds(this.#socket, signal);
  }

  /** Closes all sessions, stops BIRD and removes its routes from the kernel. Returns false when BIRD does not run. */
  async stop(signal: AbortSignal): Promise<boolean> {
    if ((await this.#ask(`disable ${SESSIONS}`, signal)) === undefined) return false;
    while (await this.#holdsRoutes(signal)) await this.#clock.sleep(20, signal);
    await this.#ask('down', signal);
    await this.ended(signal);
    await rm(this.#folder, { recursive: true, force: true });
    return true;
  }

  /**
   * Returns the id of the BIRD process of this folder, also when it no longer answers; undefined when there is none. The
   * arguments of the process decide, because the pid file may be older than the last boot.
   */
  async findProcess(): Promise<number | undefined> {
    const text = (await readIfThere(this.#pidFile))?.trim() ?? '';
    if (!/^[1-9]\d*$/.test(text)) return undefined;
    const args = (await readIfThere(join('/proc', text, 'cmdline')))?.split('\0') ?? [];
    return args[args.indexOf('-P') + 1] === this.#pidFile ? Number(text) : undefined;
  }

  async #holdsRoutes(signal: AbortSignal): Promise<boolean> {
    const reply = await this.#ask(`show protocols ${SESSIONS}`, signal);
    return (reply ?? []).some(({ text }) => /^\S+\s+BGP\s+\S+\s+(?:up|start|stop|flush)\s/.test(text));
  }

  /** BIRD daemonizes once it listens on its socket. */
  async #start(signal: AbortSignal): Promise<void> {
    // BIRD removes its pid file on a clean exit.
    const wasKilled = (await readIfThere(this.#pidFile)) !== undefined;
    const [file, ...before] = this.#program;
    const args = [...before, '-c', this.#config, '-s', this.#socket, '-P', this.#pidFile, ...(wasKilled ? ['-R'] : [])];
    using limit = timeLimit(ANSWER_MS, () => birdFailed('timed out while starting BIRD'));
    const either = AbortSignal.any([signal, limit.signal]);
    const { status, stdout, stderr } = await exec(file, args, { signal: either }).catch((cause: unknown) => {
      throw errnoOf(cause) === 'ENOENT' ? birdMissing(file, cause) : cause;
    });
    if (status !== 0) throw birdFailed(`starting BIRD failed: ${`${stderr}${stdout}`.trim()}`);
  }

  async #ask(command: string, signal: AbortSignal): Promise<BirdReply | undefined> {
    using limit = timeLimit(ANSWER_MS, () => birdFailed(`BIRD does not answer "${command}"`));
    return await askBird(this.#socket, command, AbortSignal.any([signal, limit.signal]));
  }
}

/** @throws bgp/bird-failed for an answer that is a refusal */
function refuseRefusal(reply: BirdReply): void {
  const last = reply.at(-1);
  if (last !== undefined && last.code >= REFUSED) throw birdFailed(`BIRD refuses its configuration: ${last.text}`);
}

function birdMissing(file: string, cause: unknown): NetplugError {
  return new NetplugError('bgp/bird-missing', `Cannot route by BGP: there is no program "${file}"`, {
    hint: 'Install BIRD 2 (on Debian the package bird2)',
    cause,
  });
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT') return undefined;
    throw cause;
  }
}
