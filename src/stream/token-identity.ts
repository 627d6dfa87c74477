import * as v from 'valibot';
import type { Clock } from '../base/clock.ts';
import { NetplugError } from '../base/errors.ts';
import { sha256Of } from '../base/sha256.ts';
import { tokenExpiry } from '../kube/jwt.ts';
import type { OrchApi } from '../kube/orch-api.ts';
import type { NodeName } from '../model/names.ts';

const TOKEN_REVIEWS = { group: 'authentication.k8s.io', version: 'v1', plural: 'tokenreviews' } as const;
const NODE_KEY = 'authentication.kubernetes.io/node-name';

/** Reviews of tokens: asks whether a token is good for an audience. */
export type ReviewToken = (token: string, signal: AbortSignal) => Promise<unknown>;

/** Asks the API server, for the audience alone: a token of another one is refused. */
export function tokenReviewer(api: Pick<OrchApi, 'review'>, audience: string): ReviewToken {
  return async (token, signal) => {
    const review = {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenReview',
      spec: { token, audiences: [audience] },
    };
    return api.review(TOKEN_REVIEWS, review, signal);
  };
}

export interface IdentityOptions {
  readonly clock: Clock;
  readonly review: ReviewToken;
  readonly audience: string;
  /** Users of the tokens of agents, such as `system:serviceaccount:netplug-system:netplug-agent`. */
  readonly users: readonly string[];
}

/** A result is used again until the token ends, for at most that long: a deleted pod's token ends before. */
const CACHED_MS = 600_000;
const MOST_CACHED = 10_000;
/** A server asks the API no more often than that: 200 times a second. */
const APART_MS = 5;

const reviewStatus = v.looseObject({
  authenticated: v.optional(v.boolean(), false),
  audiences: v.optional(v.array(v.string()), []),
  user: v.optional(
    v.looseObject({
      username: v.optional(v.string(), ''),
      extra: v.optional(v.looseObject({ [NODE_KEY]: v.optional(v.array(v.string()), []) })),
    }),
  ),
});

/** Finds the node of an agent by its token, which is bound to a pod of that node. */
export class TokenIdentity {
  readonly #options: IdentityOptions;
  readonly #known = new Map<string, { readonly node: NodeName; readonly untilMs: number }>();
  /** When the next question may be asked, by the monotonic clock. */
  #nextMs = 0;
  /** Number of questions to the API. */
  reviews = 0;

  constructor(options: IdentityOptions) {
    this.#options = options;
  }

  /** Returns the node. Waits while the API is asked too often. @throws stream/identity-refused, store/* */
  async nodeOf(token: string, signal: AbortSignal): Promise<NodeName> {
    const { clock, review, audience, users } = this.#options;
    const nowMs = clock.now();
    const key = sha256Of(token);
    const known = this.#known.get(key);
    if (known !== undefined && known.untilMs > nowMs) return known.node;
    await this.#pace(signal);
    this.reviews += 1;
    const read = v.safeParse(reviewStatus, await review(token, signal));
    const status = read.success ? read.output : undefined;
    if (status?.authenticated !== true) throw refusedIdentity('the API server does not accept the token');
    // A server that knows no audiences would accept any token.
    if (!status.audiences.includes(audience)) throw refusedIdentity(`the token is not for the audience "${audience}"`);
    const user = status.user?.username ?? '';
    if (!users.includes(user)) throw refusedIdentity(`the token is of "${user}"`);
    const [node] = status.user?.extra?.[NODE_KEY] ?? [];
    if (node === undefined || node === '') throw refusedIdentity('the token is not bound to a node');
    this.#remember(key, node as NodeName, Math.min(tokenExpiry(token) ?? nowMs, nowMs + CACHED_MS));
    // The API server knows the node of the pod by that name.
    return node as NodeName;
  }

  /** Forgets what is known of the node, so that its tokens are reviewed again. */
  forget(node: NodeName): void {
    for (const [key, known] of this.#known) if (known.node === node) this.#known.delete(key);
  }

  async #pace(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const nowMs = clock.monotonic();
    const atMs = Math.max(nowMs, this.#nextMs);
    this.#nextMs = atMs + APART_MS;
    if (atMs <= nowMs) return;
    try {
      await clock.sleep(atMs - nowMs, signal);
    } catch (cause) {
      // A client that is gone asks nothing: those after it must not wait for it.
      this.#nextMs -= APART_MS;
      throw cause;
    }
  }

  #remember(key: string, node: NodeName, untilMs: number): void {
    this.#known.delete(key);
    this.#known.set(key, { node, untilMs });
    const [oldest] = this.#known.keys();
    if (oldest !== undefined && this.#known.size > MOST_CACHED) this.#known.delete(oldest);
  }
}

function refusedIdentity(why: string): NetplugError {
  return new NetplugError('stream/identity-refused', `Cannot identify the client: ${why}`, {
    hint: 'The agent needs a projected token for the audience of the server, bound to its pod',
  });
}
