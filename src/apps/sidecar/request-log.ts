import { type JudgedRequests, MOST_LISTED } from '../../policy/feed/messages.ts';
import { shortened } from './shortened.ts';
import type { RequestJudgement, CheckQuestion } from './request-judge.ts';

/** Different requests of one client and rule that are told apart between two reports; the others count together. */
const MOST_OF_CLIENT = 10;
/** So many are told apart in all; clients beyond count with those of their rule, the first of them for all. */
const MOST_IN_ALL = MOST_LISTED - 100;

/** Method of requests that are counted and not told apart. */
const OTHERS = 'OTHERS';

type Requests = Omit<JudgedRequests, 'count'>;

/** Counts requests by what decided and what was asked, between two reports to the agent. */
export class RequestLog {
  #entries = new Map<string, { readonly requests: Requests; count: number }>();
  #ofClient = new Map<string, number>();

  note({ source, destination, request }: CheckQuestion, judgement: RequestJudgement): void {
    if (judgement.kind === 'unasked') return;
    const { end, content } = judgement;
    const { decision, verdict } = end;
    const policy =
      decision.kind === 'rule'
        ? decision.policy
        : decision.kind === 'profile rule'
          ? `Profile ${decision.profile}`
          : undefined;
    const index = 'index' in decision ? decision.index : undefined;
    const { method = 'TCP', target = '' } = request ?? {};
    const [path = ''] = target.split('?', 1);
    const isOdd = content.kind === 'request' && content.path === undefined;
    const account = content.kind !== 'unknown' && typeof content.peer === 'object' ? content.peer : undefined;
    const requests = {
      ...(policy === undefined ? {} : { policy, index }),
      verdict,
      method: shortened(method),
      path: shortened(path),
      source: source.address.slice(0, 64).toWellFormed(),
      port: destination.port,
      ...(account === undefined ? {} : { account: shortened(`${account.namespace}/${account.name}`) }),
      ...(isOdd ? { note: 'the path is not canonical' } : {}),
    };
    this.#add(requests);
  }

  /** Returns what was judged since the last call. */
  take(): readonly JudgedRequests[] {
    const taken = [...this.#entries.values()].map(({ requests, count }) => ({ ...requests, count }));
    this.#entries = new Map();
    this.#ofClient = new Map();
    return taken;
  }

  #add(requests: Requests): void {
    if (this.#count(requests)) return;
    const { policy, index, verdict, source, port } = requests;
    const rule = `${policy ?? ''} ${String(index)} ${verdict}`;
    const client = `${source} ${rule}`;
    const known = this.#ofClient.get(client) ?? 0;
    if (known < MOST_OF_CLIENT && this.#entries.size < MOST_IN_ALL) {
      this.#ofClient.set(client, known + 1);
      this.#entries.set(JSON.stringify(requests), { requests, count: 1 });
      return;
    }
    const others = {
      ...(policy === undefined ? {} : { policy, index }),
      verdict,
      method: OTHERS,
      path: '',
      source,
      port,
    };
    if (this.#count(others, `others of ${client}`)) return;
    if (this.#entries.size < MOST_IN_ALL) this.#entries.set(`others of ${client}`, { requests: others, count: 1 });
    else if (!this.#count(others, `others of ${rule}`) && this.#entries.size < MOST_LISTED)
      this.#entries.set(`others of ${rule}`, { requests: others, count: 1 });
  }

  /** Returns whether there are requests of that kind, which have one more. */
  #count(requests: Requests, key = JSON.stringify(requests)): boolean {
    const known = this.#entries.get(key);
    if (known !== undefined) known.count += 1;
    return known !== undefined;
  }
}
