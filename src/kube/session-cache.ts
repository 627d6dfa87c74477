import { timedOut } from '../base/timed-out.ts';
import type { AccessInputs, OrchAccess } from './access.ts';
import { loadSession } from './load-session.ts';
import { fingerprint } from './read-files.ts';
import type { Session } from './session.ts';
import { untilAborted } from '../base/until-aborted.ts';

/** Time for which files are believed unchanged, so that requests at the same moment look only once. */
const LOOK_EVERY_MS = 1000;
/** A credential is asked for again this long before it ends: a request takes time too. */
const EXPIRY_MARGIN_MS = 10_000;
/** For reading files and running a credential plugin. */
const LOAD_MS = 30_000;

interface Loaded {
  readonly session: Session;
  readonly mark: string;
  lookedAt: number;
}

/** The session as the files say now: read when first needed, when a file changes, and before a credential ends. */
export class SessionCache {
  readonly #access: OrchAccess;
  readonly #inputs: AccessInputs;
  #loaded: Loaded | undefined;
  #loading: Promise<Loaded> | undefined;

  constructor(access: OrchAccess, inputs: AccessInputs) {
    this.#access = access;
    this.#inputs = inputs;
  }

  async current(signal: AbortSignal): Promise<Session> {
    const loaded = this.#loaded;
    if (loaded === undefined) return this.#load(signal);
    const now = this.#inputs.now();
    if (loaded.session.expiresAt !== undefined && loaded.session.expiresAt - EXPIRY_MARGIN_MS <= now) {
      return this.#load(signal);
    }
    if (now - loaded.lookedAt < LOOK_EVERY_MS) return loaded.session;
    loaded.lookedAt = now;
    if ((await fingerprint(loaded.session.files)) === loaded.mark) return loaded.session;
    try {
      return await this.#load(signal);
    } catch (cause) {
      if (signal.aborted) throw cause;
      // A file may be half written: what was read before serves until the API refuses it.
      return loaded.session;
    }
  }

  /** Reads the files again after the API refused this session, unless a concurrent call has already done so. */
  async renew(refused: Session, signal: AbortSignal): Promise<Session> {
    const loaded = this.#loaded;
    return loaded !== undefined && loaded.session !== refused ? loaded.session : this.#load(signal);
  }

  /** Shares one read among all waiting callers. A caller that aborts does not cancel it for the others. */
  async #load(signal: AbortSignal): Promise<Session> {
    if (signal.aborted) throw timedOut(signal, 'waiting to read the access to the API of the orchestrator');
    this.#loading ??= this.#read().finally(() => {
      this.#loading = undefined;
    });
    try {
      return (await untilAborted(this.#loading, signal)).session;
    } catch (cause) {
      throw signal.aborted ? timedOut(signal, 'reading the access to the API of the orchestrator') : cause;
    }
  }

  async #read(): Promise<Loaded> {
    const session = await loadSession(this.#access, this.#inputs, AbortSignal.timeout(LOAD_MS));
    this.#loaded = { session, mark: await fingerprint(session.files), lookedAt: this.#inputs.now() };
    return this.#loaded;
  }
}
