/** The log line for a pod with annotations whose network configuration does not set `policy.type`. */
export const IGNORED_ANNOTATIONS = {
  event: 'pod annotations ignored',
  facts: {
    reason: 'policy.type is not "orch"',
    remedy: 'Set policy.type to "orch" and give orch access to the API server, or remove the annotations',
  },
} as const;
