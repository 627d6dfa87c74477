import { mkdir, readdir, readFile, readlink, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFileAtomically } from '../base/atomic-file.ts';
import { type Clock, timeLimit } from '../base/clock.ts';
import { errnoOf, NetplugError } from '../base/errors.ts';
import { exec } from '../base/exec.ts';
import { ignoreMissing } from '../base/missing-file.ts';
import { askBird, birdEnds, birdFailed, type BirdReply } from './control-socket.ts';
import { hasBfd, readBfdStates, readSessions, type SessionStatus } from './read-status.ts';

export interface BirdPlaces {
  /** The folder of this BIRD: configuration, socket, process id and log. */
  readonly folder: string;
  /** The program and its first arguments; `external` when `netplug-bird` runs BIRD in this folder. */
  readonly program: readonly [string, ...string[]] | 'external';
}

export type Applied = 'unchanged' | 'reloaded' | 'started';

const CONFIG_MODE = 0o600;
const ANSWER_MS = 10_000;
const REFUSED = 8000;
/** The answer to `configure` of a BIRD that was asked to exit. */
const SHUTTING_DOWN = 6;
const REFUSED_HINT = 'See the log of BIRD beside its configuration. Peers with bfd need BIRD 2.0.8 or later';
/** Pattern of the names of BGP protocols. */
const SESSIONS = '"peer_*"';

/**
 * The one BIRD process of a node, reached by its control socket. It outlives the agent: as a daemon that the agent has
 * started, or as a child of `netplug-bird`, which starts it when the configuration exists. The file `bird.conf` is what BIRD has loaded. It contains passwords, so only root may read it.
 */
export class Bird {
  readonly #clock: Clock;
  readonly #program: BirdPlaces['program'];
  readonly #folder: string;
  readonly #socket: string;
  readonly #config: string;
  readonly #pidFile: string;
  /** There once BIRD was asked to exit gracefully, until it starts. */
  readonly #gracefulFile: string;
  /** Holds the number of the newest link of a pod at the first count since BIRD started. */
  readonly #firstLinkFile: string;
  /** Whether BIRD may have loaded another configuration than `bird.conf`: one that was replaced while it started. */
  #isLoadUnknown: boolean;

  constructor({ places, clock }: { readonly places: BirdPlaces; readonly clock: Clock }) {
    this.#clock = clock;
    this.#program = places.program;
    this.#folder = places.folder;
    this.#socket = join(places.folder, 'bird.ctl');
    this.#config = join(places.folder, 'bird.conf');
    this.#pidFile = join(places.folder, 'bird.pid');
    this.#gracefulFile = join(places.folder, 'bird.graceful');
    this.#firstLinkFile = join(places.folder, 'bird.first-link');
    this.#isLoadUnknown = places.program === 'external';
  }

  /**
   * Starts or reloads BIRD with the configuration; does nothing when BIRD has loaded it already. Sessions that do not
   * change stay up. After a kill BIRD starts in graceful restart: peers and kernel keep its routes. An external BIRD that
   * does not run is left the configuration for its start.
   * @throws bgp/bird-missing, bgp/bird-failed; BIRD keeps the previous configuration when it refuses this one
   */
  async apply(text: string, signal: AbortSignal): Promise<Applied> {
    const isRunning = (await this.#ask('show status', signal)) !== undefined;
    const isWritten = (await readIfThere(this.#config)) === text;
    if (isRunning && isWritten && !this.#isLoadUnknown) return 'unchanged';
    // Needs no space on a disk that has become full.
    if (!isRunning && isWritten) return this.#start(signal);
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const candidate = `${this.#config}.next`;
    await writeFileAtomically(candidate, { text, mode: CONFIG_MODE });
    const reply = isRunning ? await this.#ask(`configure "${candidate}"`, signal) : undefined;
    if (reply === undefined) {
      await rename(candidate, this.#config);
      return this.#start(signal);
    }
    refuseRefusal(reply, 'its configuration');
    // Last, so that a crash before it makes the next call load the configuration again.
    await rename(candidate, this.#config);
    this.#isLoadUnknown = false;
    return 'reloaded';
  }

  /** Returns the sessions ordered by name; undefined while BIRD does not run. */
  async status(signal: AbortSignal): Promise<readonly SessionStatus[] | undefined> {
    const reply = await this.#ask('show protocols all', signal);
    if (reply === undefined) return undefined;
    const bfd = hasBfd(reply) ? await this.#ask('show bfd sessions', signal) : undefined;
    return readSessions(reply, readBfdStates(bfd ?? []));
  }

  /** Begins the sessions, which BIRD disables when it cannot listen. */
  async enableSessions(names: readonly string[], signal: AbortSignal): Promise<void> {
    for (const name of names) await this.#ask(`enable ${name}`, signal);
  }

  /** Resolves when the BIRD process has exited. */
  async ended(signal: AbortSignal): Promise<void> {
    await birdEnds(this.#socket, signal);
  }

  /**
   * Makes BIRD exit soon, without closing its sessions, to be started again: as after a kill, peers and kernel keep its routes.
   * @throws bgp/bird-failed
   */
  async exitGracefully(signal: AbortSignal): Promise<void> {
    await writeFileAtomically(this.#gracefulFile, { text: '', mode: CONFIG_MODE });
    refuseRefusal((await this.#ask('graceful restart', signal)) ?? [], 'a graceful restart');
  }

  /**
   * Returns how many links the host has got since BIRD started, or since the first call after that. The kernel numbers links in
   * the order in which they are made; `newest` is the number of the newest.
   */
  async linksSinceStart(newest: number): Promise<number> {
    const first = Number((await readIfThere(this.#firstLinkFile)) ?? Number.NaN);
    if (first <= newest) return newest - first;
    await writeFileAtomically(this.#firstLinkFile, { text: `${String(newest)}\n`, mode: CONFIG_MODE });
    return 0;
  }

  /** Closes all sessions, stops BIRD and removes its routes from the kernel. Returns false when BIRD does not run. */
  async stop(signal: AbortSignal): Promise<boolean> {
    // First: netplug-bird would start it again, also one that is killed because it does not answer.
    await rm(this.#config, { force: true });
    if ((await this.#ask(`disable ${SESSIONS}`, signal)) === undefined) return false;
    while (await this.#holdsRoutes(signal)) await this.#clock.sleep(20, signal);
    await this.#ask('down', signal);
    await this.ended(signal);
    await rm(this.#folder, { recursive: true, force: true });
    return true;
  }

  /**
   * Returns the id of a BIRD process of this folder, also when it no longer answers; undefined when there is none. The arguments of
   * the process decide: the pid file may be older than the last boot, and one of two that were started beside each other removes it.
   */
  async findProcess(): Promise<number | undefined> {
    const noted = (await readIfThere(this.#pidFile))?.trim() ?? '';
    for (const pid of [noted, ...(await readdir('/proc'))]) if (await this.#isOwn(pid)) return Number(pid);
    return undefined;
  }

  /** Reports whether the process is a BIRD of this folder, in this network: another host may have a folder of the name. */
  async #isOwn(pid: string): Promise<boolean> {
    if (!/^[1-9]\d*$/.test(pid)) return false;
    const args = (await readIfThere(join('/proc', pid, 'cmdline')))?.split('\0') ?? [];
    if (args[args.indexOf('-P') + 1] !== this.#pidFile) return false;
    const [own, other] = await Promise.all(
      ['self', pid].map(async (each) => readlink(join('/proc', each, 'ns/net')).catch(ignoreMissing)),
    );
    return own === other;
  }

  async #holdsRoutes(signal: AbortSignal): Promise<boolean> {
    const reply = await this.#ask(`show protocols ${SESSIONS}`, signal);
    return (reply ?? []).some(({ text }) => /^\S+\s+BGP\s+\S+\s+(?:up|start|stop|flush)\s/.test(text));
  }

  /** Prepares a start of BIRD. Returns its arguments. `netplug-bird` (native/bird-starter.c) does the same. */
  async prepareStart(): Promise<readonly string[]> {
    await rm(this.#firstLinkFile, { force: true });
    // BIRD removes its pid file on a clean exit. After a graceful one there are routes to keep, as after a kill.
    await rename(this.#gracefulFile, this.#pidFile).catch(ignoreMissing);
    const wasKilled = (await readIfThere(this.#pidFile)) !== undefined;
    return ['-c', this.#config, '-s', this.#socket, '-P', this.#pidFile, ...(wasKilled ? ['-R'] : [])];
  }

  /** Starts BIRD with `bird.conf`. It daemonizes once it listens on its socket. */
  async #start(signal: AbortSignal): Promise<'started'> {
    if (this.#program === 'external') {
      this.#isLoadUnknown = true;
      throw notStarted();
    }
    const [file, ...before] = this.#program;
    const args = [...before, ...(await this.prepareStart())];
    using limit = timeLimit(ANSWER_MS, () => birdFailed('timed out while starting BIRD'));
    const either = AbortSignal.any([signal, limit.signal]);
    const { status, stdout, stderr } = await exec(file, args, { signal: either }).catch((cause: unknown) => {
      throw errnoOf(cause) === 'ENOENT' ? birdMissing(file, cause) : cause;
    });
    if (status !== 0) throw birdFailed(`starting BIRD failed: ${`${stderr}${stdout}`.trim()}`, REFUSED_HINT);
    return 'started';
  }

  async #ask(command: string, signal: AbortSignal): Promise<BirdReply | undefined> {
    using limit = timeLimit(ANSWER_MS, () => birdFailed(`BIRD does not answer "${command}"`));
    return await askBird(this.#socket, command, AbortSignal.any([signal, limit.signal]));
  }
}

/** @throws bgp/bird-failed for an answer that is a refusal */
function refuseRefusal(reply: BirdReply, what: string): void {
  const last = reply.at(-1);
  if (last?.code === SHUTTING_DOWN) throw birdFailed('BIRD is exiting');
  if (last !== undefined && last.code >= REFUSED) throw birdFailed(`BIRD refuses ${what}: ${last.text}`, REFUSED_HINT);
}

function notStarted(): NetplugError {
  return new NetplugError('bgp/bird-failed', 'Cannot route by BGP: BIRD does not run', {
    hint: 'Start netplug-bird on this node, as the DaemonSet netplug-bird does; see its log if it runs',
  });
}

function birdMissing(file: string, cause: unknown): NetplugError {
  return new NetplugError('bgp/bird-missing', `Cannot route by BGP: there is no program "${file}"`, {
    hint: 'Install BIRD 2 (on Debian the package bird2)',
    cause,
  });
}

async function readIfThere(path: string): Promise<string | undefined> {
  // A process that ends is there for its folder, and not for its files.
  return readFile(path, 'utf8').catch((cause: unknown) =>
    errnoOf(cause) === 'ESRCH' ? undefined : ignoreMissing(cause),
  );
}
