// A process that campaigns for a lease and prints the monotonic time, in nanoseconds, every 5 ms while it leads.
import { writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import { openEtcdLease } from '../../src/datastore/kv/etcd-lease.ts';
import { ApiLease } from '../../src/datastore/orch/api-lease.ts';
import { OrchApi } from '../../src/kube/orch-api.ts';
import { lead } from '../../src/runtime/lead.ts';
import type { LeaderLease } from '../../src/runtime/leader-lease.ts';

export interface CandidateOptions {
  readonly name: string;
  readonly holder: string;
  readonly durationMs: number;
}

/** Where the lease lies. */
export type LeaseServer = { readonly etcd: string } | { readonly kubeconfig: string };

/** `await using` closes its connection. */
export function openLease(
  server: LeaseServer,
  options: CandidateOptions,
  clock = systemClock,
): LeaderLease & AsyncDisposable {
  if ('etcd' in server) {
    const endpoints = { from: 'list', urls: [server.etcd] } as const;
    return openEtcdLease({ endpoints, keyFile: undefined, certFile: undefined, caCertFile: undefined }, options);
  }
  const api = new OrchApi({ from: 'file', path: server.kubeconfig });
  const lease = new ApiLease(api, clock, { ...options, namespace: 'kube-system' });
  return Object.assign(lease, { [Symbol.asyncDispose]: async () => api[Symbol.asyncDispose]() });
}

if (process.argv[2] !== undefined) {
  const { server, ...options } = JSON.parse(process.argv[2]) as CandidateOptions & { readonly server: LeaseServer };
  const stop = new AbortController();
  process.once('SIGTERM', () => stop.abort());
  await using lease = openLease(server, options);
  const ports = { clock: systemClock, random: systemRandom, log: silentLog, lease };
  await lead(
    ports,
    async ({ signal, isHeld }) => {
      while (!signal.aborted) {
        const now = process.hrtime.bigint();
        if (isHeld()) writeSync(1, `${String(now)}\n`);
        await sleep(5);
      }
    },
    stop.signal,
  );
}
