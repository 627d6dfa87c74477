import { Channel } from '../../base/channel.ts';
import { untilAborted } from '../../base/until-aborted.ts';
import { timedOut } from '../../base/timed-out.ts';
import type { LeaseKeepAliveRequest, LeaseKeepAliveResponse } from '../../../proto/gen/etcd.ts';
import type { EtcdClient } from './etcd-client.ts';
import { etcdError } from './translate-error.ts';

const UNANSWERED = { code: 'store/unavailable', reason: 'the renewal was not answered' } as const;

interface Stream {
  readonly requests: Channel<LeaseKeepAliveRequest>;
  readonly answers: AsyncIterator<LeaseKeepAliveResponse, unknown>;
  readonly stop: AbortController;
}

/** Renews leases over one stream, opened when it is first needed and again after a failure. Does not keep the process alive. */
export class LeaseRenewals {
  readonly #client: EtcdClient;
  #stream: Stream | undefined;

  constructor(client: EtcdClient) {
    this.#client = client;
  }

  /** Renews a lease; one call at a time. Returns false when there is no such lease. @throws store/* */
  async renew(id: bigint, signal: AbortSignal): Promise<boolean> {
    const { requests, answers } = (this.#stream ??= this.#open());
    requests.push({ ID: id });
    try {
      const { value, done } = await untilAborted(answers.next(), signal);
      if (done === true || value.ID !== id) throw etcdError(UNANSWERED, 'renewing a lease');
      return value.TTL > 0n;
    } catch (cause) {
      // An answer that comes later would be taken for that to the next request.
      this.close();
      throw signal.aborted ? timedOut(signal, 'renewing a lease') : cause;
    }
  }

  close(): void {
    this.#stream?.stop.abort();
    this.#stream?.requests.close();
    this.#stream = undefined;
  }

  #open(): Stream {
    const requests = new Channel<LeaseKeepAliveRequest>();
    const stop = new AbortController();
    return { requests, stop, answers: this.#client.renewals(requests, stop.signal) };
  }
}
