import { readFile } from 'node:fs/promises';
import { type RetryPorts, withJitter } from '../../base/back-off.ts';
import { reasonAndRemedy } from '../../base/errors.ts';
import { failureFacts } from '../../cni/error-output.ts';
import type { Log } from '../../base/log.ts';
import { ignoreMissing } from '../../base/missing-file.ts';
import type { AgentFiles } from '../../install/agent-files.ts';
import { renderKubeconfig } from '../../install/render-kubeconfig.ts';
import { tokenExpiry } from '../../kube/jwt.ts';
import type { IssuedToken } from '../../kube/token-request.ts';

/** Interval at which the files are compared with what they must contain. */
const PERIOD_MS = 5000;
/** Interval at which the API is asked whether it still accepts the token. A rotated signing key ends all tokens at once. */
const CHECK_MS = 60_000;
/** The longest wait between two attempts after a failure. */
const RETRY_MS = 10_000;
const LEAST_RENEWAL_MS = 5000;
const LOW_MS = 3_600_000;

/** The API server, and the agent's own credential for it. */
export interface ApiServer {
  readonly server: string;
  /** PEM; undefined trusts the roots of the system. */
  readonly caPem: string | undefined;
  /** Changes with each rotation of the agent's own token; empty without one. */
  readonly ownToken: string;
}

export interface CredentialPorts extends RetryPorts {
  readonly log: Log;
  readonly files: Pick<AgentFiles, 'put'>;
  readonly readServer: (signal: AbortSignal) => Promise<ApiServer>;
  readonly requestToken: (signal: AbortSignal) => Promise<IssuedToken>;
  /** Reports whether the API accepts the credential of the kubeconfig. @throws store/* when it does not answer */
  readonly isAccepted: (signal: AbortSignal) => Promise<boolean>;
}

export interface CredentialPlace {
  /** Name of the service account, for messages. */
  readonly account: string;
  readonly kubeconfigPath: string;
  readonly tokenPath: string;
}

interface CurrentToken extends IssuedToken {
  readonly lifetimeMs: number;
  readonly renewAtMs: number;
}

/**
 * Keeps kubeconfig and token of the plugin's own account up to date. A token is renewed long before it expires, and at
 * once when the API no longer accepts it. Files that were changed or removed are written again.
 */
export class CniCredentials {
  readonly #ports: CredentialPorts;
  readonly #place: CredentialPlace;
  #token: CurrentToken | undefined;
  /** Expiry of the token in the file of an earlier agent, until there is a new one. */
  #earlierExpiryMs: number | undefined;
  #ownToken = '';
  #checkAtMs = 0;
  #isWritten = false;
  #problem: string | undefined;

  constructor(ports: CredentialPorts, place: CredentialPlace) {
    this.#ports = ports;
    this.#place = place;
  }

  /** Reason why the plugin has no credentials; undefined once both files are written, or while an earlier token is valid. */
  get obstacle(): string | undefined {
    const isUsable = this.#isWritten || (this.#earlierExpiryMs ?? 0) > this.#ports.clock.now();
    if (isUsable) return undefined;
    return this.#problem ?? `the token of service account "${this.#place.account}" is being requested`;
  }

  /** Seconds until the token expires, below 0 afterwards; undefined without a token. */
  secondsLeft(): number | undefined {
    const expiryMs = this.#token?.expiresAtMs ?? this.#earlierExpiryMs;
    return expiryMs === undefined ? undefined : (expiryMs - this.#ports.clock.now()) / 1000;
  }

  /**
   * Returns a warning while the token cannot be renewed, and while it lasts less than an hour, or less than a quarter of
   * its lifetime if that is shorter.
   */
  get warning(): string | undefined {
    const seconds = this.secondsLeft();
    if (seconds === undefined) return undefined;
    const { lifetimeMs = Infinity } = this.#token ?? {};
    const isLow = seconds * 1000 < Math.min(LOW_MS, lifetimeMs / 4);
    if (!isLow && this.#problem === undefined) return undefined;
    const when = seconds <= 0 ? 'has expired' : `expires in ${String(Math.floor(seconds / 60))} minutes`;
    const why = this.#problem === undefined ? '' : ` and is not renewed: ${this.#problem}`;
    return `the token of service account "${this.#place.account}" ${when}${why}`;
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, random } = this.#ports;
    this.#earlierExpiryMs = await this.#readEarlierExpiry();
    while (!signal.aborted) {
      let waitMs = PERIOD_MS;
      try {
        await this.#reconcile(signal);
        if (this.#problem !== undefined) log.info('credentials of the plugin recovered');
        this.#problem = undefined;
      } catch (cause) {
        if (signal.aborted) return;
        const problem = reasonAndRemedy(cause);
        if (problem !== this.#problem) log.warning('credentials of the plugin not renewed', failureFacts(cause));
        this.#problem = problem;
        waitMs = withJitter(RETRY_MS, random);
      }
      await clock.sleep(waitMs, signal).catch(() => undefined);
    }
  }

  async #reconcile(signal: AbortSignal): Promise<void> {
    const { files, readServer, log } = this.#ports;
    const { kubeconfigPath, tokenPath } = this.#place;
    const server = await readServer(signal);
    const token = (await this.#stillGood(server, signal)) ?? (await this.#renew(signal));
    this.#ownToken = server.ownToken;
    const didToken = await files.put({ kind: 'token', path: tokenPath, text: `${token.token}\n` }, signal);
    const kubeconfig = renderKubeconfig({ ...server, user: { by: 'token-file', path: tokenPath } });
    const text = `${JSON.stringify(kubeconfig, undefined, 2)}\n`;
    const didConfig = await files.put({ kind: 'kubeconfig', path: kubeconfigPath, text }, signal);
    const paths = [didToken ? tokenPath : [], didConfig ? kubeconfigPath : []].flat();
    if (paths.length > 0) log.info('credentials of the plugin written', { paths });
    this.#isWritten = true;
  }

  /** Returns the token in use; undefined when it must be renewed. */
  async #stillGood({ ownToken }: ApiServer, signal: AbortSignal): Promise<CurrentToken | undefined> {
    const { clock, isAccepted, log } = this.#ports;
    const token = this.#token;
    if (token === undefined || clock.now() >= token.renewAtMs) return undefined;
    // A rotation of the agent's own token may be due to a rotated signing key.
    if (!this.#isWritten || (clock.monotonic() < this.#checkAtMs && ownToken === this.#ownToken)) return token;
    this.#checkAtMs = clock.monotonic() + CHECK_MS;
    if (await isAccepted(signal)) return token;
    log.warning('token of the plugin refused', { account: this.#place.account });
    return undefined;
  }

  async #renew(signal: AbortSignal): Promise<CurrentToken> {
    const { clock, log, random, requestToken } = this.#ports;
    const issued = await requestToken(signal);
    const lifetimeMs = Math.max(0, issued.expiresAtMs - clock.now());
    const waitMs = Math.max(LEAST_RENEWAL_MS, lifetimeMs / 4 + random.int(1 + Math.floor(lifetimeMs / 4)));
    this.#token = { ...issued, lifetimeMs, renewAtMs: clock.now() + waitMs };
    this.#checkAtMs = clock.monotonic() + CHECK_MS;
    const expires = new Date(issued.expiresAtMs).toISOString();
    log.info('token of the plugin issued', { account: this.#place.account, expires });
    return this.#token;
  }

  async #readEarlierExpiry(): Promise<number | undefined> {
    const text = await readFile(this.#place.tokenPath, 'utf8').catch(ignoreMissing);
    return text === undefined ? undefined : tokenExpiry(text.trim());
  }
}
