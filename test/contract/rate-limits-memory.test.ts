import { MemoryKernel } from '../support/memory/memory-kernel.ts';
import { rateLimitsContract } from './suites/dataplane/rate-limits.ts';

rateLimitsContract('memory', async () => {
  const kernel = new MemoryKernel();
  let pods = 0;
  return {
    kernel,
    newPod: async () => {
      pods += 1;
      kernel.addNetns(`/run/netns/pod-${String(pods)}`);
      return `/run/netns/pod-${String(pods)}`;
    },
    limit: async ({ hostLinkName }, { bytesPerSecond, burstBytes }) => {
      const limit = { bytesPerSecond, burstBytes, queueBytes: burstBytes + bytesPerSecond / 40 };
      for (const direction of ['ingress', 'egress'] as const) kernel.limitRate(hostLinkName, { ...limit, direction });
    },
    [Symbol.asyncDispose]: async () => {},
  };
});
