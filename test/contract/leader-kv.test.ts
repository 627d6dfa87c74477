import { startEtcd } from '../support/etcd.ts';
import { openLease } from '../support/leader-candidate.ts';
import { leaderProcessContract } from './suites/runtime/leader-processes.ts';
import { leaderContract } from './suites/runtime/leader.ts';

leaderContract('etcd', async () => {
  const etcd = await startEtcd();
  return {
    candidate: (options, clock) => openLease({ etcd: etcd.url }, options, clock),
    [Symbol.asyncDispose]: async () => etcd[Symbol.asyncDispose](),
  };
});

leaderProcessContract('etcd', async () => {
  const etcd = await startEtcd();
  return {
    server: { etcd: etcd.url },
    pause: async () => Promise.resolve(etcd.pause()),
    resume: async () => Promise.resolve(etcd.resume()),
    [Symbol.asyncDispose]: async () => etcd[Symbol.asyncDispose](),
  };
});
