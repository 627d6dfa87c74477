import { type ApiServer, startApiServer } from '../support/kube.ts';
import { openLease } from '../support/leader-candidate.ts';
import { leaderProcessContract } from './suites/runtime/leader-processes.ts';
import { leaderContract } from './suites/runtime/leader.ts';

async function startServer(): Promise<ApiServer> {
  const server = await startApiServer();
  // Nothing creates it where no controllers run.
  await server.kubectl('create', 'namespace', 'kube-system').catch(() => undefined);
  return server;
}

leaderContract('the API server', async () => {
  const server = await startServer();
  return {
    candidate: (options, clock) => openLease({ kubeconfig: server.kubeconfig }, options, clock),
    [Symbol.asyncDispose]: async () => server[Symbol.asyncDispose](),
  };
});

leaderProcessContract('the API server', async () => {
  const server = await startServer();
  return {
    server: { kubeconfig: server.kubeconfig },
    pause: async () => server.pause(),
    resume: async () => server.resume(),
    [Symbol.asyncDispose]: async () => server[Symbol.asyncDispose](),
  };
});
