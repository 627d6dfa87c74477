import type { PacketLog } from '../../../dataplane/policy-filter.ts';

/** What a kernel without a module for logs does not do. */
export const MISSING_LOGS: Readonly<Record<PacketLog, string>> = {
  log: 'policy: the kernel lacks the module nf_log_syslog: "Log" rules write nothing to its log',
  report:
    'policy: the kernel lacks the module nfnetlink_log: denied connections are dropped and counted, and not listed or reported as events',
};
