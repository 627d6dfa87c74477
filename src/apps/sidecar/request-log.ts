import type { JudgedRequests } from '../../policy/feed/messages.ts';
import type { RequestJudgement, CheckQuestion } from './request-judge.ts';

/** Different requests of one rule that are told apart between two reports; the others count with the last of them. */
const MOST_OF_RULE = 50;
const MOST_IN_ALL = 500;
const MOST_TEXT = 256;

/** Counts requests by what decided and what was asked, between two reports to the agent. */
export class RequestLog {
  #entries = new Map<string, { readonly requests: Omit<JudgedRequests, 'count'>; count: number }>();
  #ofRule = new Map<string, number>();

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
      method: method.slice(0, MOST_TEXT),
      path: path.slice(0, MOST_TEXT),
      source: source.address,
      port: destination.port,
      ...(account === undefined ? {} : { account: `${account.namespace}/${account.name}` }),
      ...(isOdd ? { note: 'the path is not canonical' } : {}),
    };
    this.#add(`${policy ?? ''} ${String(index)} ${verdict}`, requests);
  }

  /** Returns what was judged since the last call. */
  take(): readonly JudgedRequests[] {
    const taken = [...this.#entries.values()].map(({ requests, count }) => ({ ...requests, count }));
    this.#entries = new Map();
    this.#ofRule = new Map();
    return taken;
  }

  #add(rule: string, requests: Omit<JudgedRequests, 'count'>): void {
    const key = JSON.stringify(requests);
    const known = this.#entries.get(key);
    if (known !== undefined) {
      known.count += 1;
      return;
    }
    const count = this.#ofRule.get(rule) ?? 0;
    if (count < MOST_OF_RULE && this.#entries.size < MOST_IN_ALL) {
      this.#ofRule.set(rule, count + 1);
      this.#entries.set(key, { requests, count: 1 });
      return;
    }
    // What does not fit is counted by what decided alone.
    const { method: _, path: __, source: ___, account: ____, note: _____, ...rest } = requests;
    const others = { ...rest, method: 'other', path: '', source: 'other' };
    const restKey = JSON.stringify(others);
    const sum = this.#entries.get(restKey);
    if (sum === undefined) this.#entries.set(restKey, { requests: others, count: 1 });
    else sum.count += 1;
  }
}
